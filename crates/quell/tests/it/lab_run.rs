//! What `quell lab run` does when something is in its way: another lab, or an operation that fails.

use std::fs;
use std::process::{Command, Stdio};

use crate::common::{LAB_LOCK, QUELL, beside_others, comes_true, json, root_only};

/// Check that a second lab is refused in a line that names the first, and that the lock goes with it, also when it is killed.
#[test]
fn one_lab_at_a_time() {
    if !root_only("one_lab_at_a_time") {
        return;
    }
    let _beside = beside_others();
    let dir = tempfile::tempdir().expect("a folder");
    let lock = dir.path().join("lock");
    let lab = |words: &[&str]| {
        let mut command = Command::new(QUELL);
        command
            .arg("lab")
            .args(words)
            .env(LAB_LOCK.0, &lock)
            .stdin(Stdio::null());
        command
    };
    let mut first = lab(&["run", "untouched", "--budget", "3600"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("quell starts");
    let pid = first.id();
    let locked =
        comes_true(|| fs::read_to_string(&lock).is_ok_and(|text| text.trim() == pid.to_string()));
    let refused: Vec<_> = [
        &["run", "untouched"][..],
        &["run", "faults"],
        &["watch", "--cpu", "0", "-d", "1"],
        &["advise"],
    ]
    .into_iter()
    .map(|words| lab(words).output().expect("quell starts"))
    .collect();
    first.kill().expect("it runs");
    first.wait().expect("it ends");
    assert!(locked, "the first has no lock");
    for out in refused {
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{said}");
        let names = said.contains(&format!("another lab is at work (pid {pid})"));
        assert!(names && said.lines().count() == 1, "{said}");
    }
    let out = lab(&["run", "untouched", "--budget", "1", "--block", "20"])
        .output()
        .expect("quell starts");
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(!said.contains("another lab"), "{said}");
}

/// Check that the file of -o stays as it was until there is a result, and that an experiment whose operations fail costs the others nothing: too little address space for one, enough for the other.
#[test]
fn one_failure_costs_no_other() {
    if !root_only("one_failure_costs_no_other") {
        return;
    }
    let _beside = beside_others();
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("r.jsonl");
    fs::write(&file, "old").expect("a file");
    let run = |experiments: &str, budget: &str| {
        let script = format!(
            "ulimit -v 1500000; exec \"$0\" lab run {experiments} --set bytes=2G --block 50 --budget {budget} -o \"$1\""
        );
        let out = Command::new("sh")
            .args(["-c", &script, QUELL])
            .arg(&file)
            .env(LAB_LOCK.0, LAB_LOCK.1)
            .output()
            .expect("sh starts");
        (
            out.status.code(),
            String::from_utf8_lossy(&out.stderr).into_owned(),
        )
    };
    let text = || fs::read_to_string(&file).expect("a file");
    let (code, said) = run("munmap", "60");
    if said.contains("can't run here") {
        eprintln!("SKIPPED one_failure_costs_no_other: {said}");
        return;
    }
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("arm of munmap: Cannot allocate memory"),
        "{said}"
    );
    assert_eq!(text(), "old", "nothing was measured");
    let (code, said) = run("munmap dontneed", "10");
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("munmap failed"), "{said}");
    let text = text();
    assert_eq!(text.lines().count(), 1, "{text}");
    assert_eq!(json(text.as_bytes())["experiment"], "dontneed");
}
