//! `quell doctor` on the machine that the tests run on, and on a process with known hazards.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::common::{QUELL, beside_others, emulated_only, example, json, quell, root_only};
use crate::input::as_nobody;

/// The finding of a rule.
fn found<'a>(audit: &'a Value, rule: &str) -> &'a Value {
    let findings = audit["findings"].as_array().expect("findings");
    let one = findings.iter().find(|f| f["rule"] == rule);
    one.unwrap_or_else(|| panic!("no {rule} in {audit:#}"))
}

/// Check that every rule of the system answers on this machine, with what it read wherever it is sure, in the contract's words.
#[test]
fn every_rule_answers() {
    let _beside = beside_others();
    let out = quell(&["doctor", "--json"]);
    assert!(
        matches!(out.status.code(), Some(0 | 1 | 3)),
        "{:?}: {}",
        out.status,
        String::from_utf8_lossy(&out.stderr)
    );
    let audit = json(&out.stdout);
    assert_eq!(audit["schema"], "quell/doctor/1");
    let findings = audit["findings"].as_array().expect("findings");
    assert!(findings.len() >= 35, "{}", findings.len());
    for f in findings {
        let status = f["status"].as_str().expect("a status");
        assert!(["hazard", "ok", "unknown"].contains(&status), "{f}");
        for key in [
            "severity",
            "why",
            "fix_now",
            "fix_lasting",
            "source",
            "said",
        ] {
            assert!(f[key].is_string(), "{key} of {f}");
        }
        let read = f["read"].as_array().expect("read");
        assert!(
            status == "unknown" || !read.is_empty(),
            "sure, and read nothing: {f}"
        );
        let fixes = [&f["fix_now"], &f["fix_lasting"]];
        let none = fixes.iter().all(|fix| *fix == "");
        assert!(
            status != "hazard" || !none || f["severity"] == "info",
            "no fix: {f}"
        );
    }
    let setting = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    if let Ok(setting) = setting {
        let always = setting.contains("[always]");
        let expected = if always { "hazard" } else { "ok" };
        assert_eq!(found(&audit, "SYS-THP")["status"], expected, "{setting}");
    }
}

/// Check that a rule that isn't there, a process that isn't there, and a bad word are bad usage in one line.
#[test]
fn bad_usage() {
    for args in [
        &["doctor", "--rule", "SYS-NONE"][..],
        &["doctor", "-p", "999999999"],
        &["doctor", "--profile", "fast"],
        &["doctor", "--fail-on", "worst"],
        &["doctor", "--emit", "chef"],
        &["doctor", "/nonexistent/trace"],
        &["doctor", "--undo", "/nonexistent/undo", "--apply"],
        &["doctor", "--rule", "SYS-THP", "--yes"],
        &["doctor", "--apply", "--output", "/dev/null"],
        &["doctor", "--undo", "/nonexistent/undo", "--rule", "SYS-THP"],
    ] {
        let out = quell(args);
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(2), "{args:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{args:?}: {said}");
        assert!(out.stdout.is_empty(), "{args:?}");
    }
}

/// A process that is ended with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Check that a process with a writable mapping of a file on a disk has that hazard, and one of a file in memory doesn't.
#[test]
fn written_back_mappings() {
    if !root_only("written_back_mappings") {
        return;
    }
    let _beside = beside_others();
    // beside the binary, for /tmp may be in memory
    let disk = tempfile::tempdir_in(Path::new(QUELL).parent().expect("a folder"));
    let memory = tempfile::tempdir_in("/dev/shm");
    for (dir, expected) in [(disk, "hazard"), (memory, "ok")] {
        let dir = dir.expect("a folder");
        let file = dir.path().join("ring");
        let child = Command::new(example("mapped"))
            .arg(&file)
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut running = Running(child);
        // it says when the mapping is there
        let mut line = String::new();
        let mut out = std::io::BufReader::new(running.0.stdout.take().expect("a pipe"));
        std::io::BufRead::read_line(&mut out, &mut line).expect("a line");
        assert_eq!(line, "mapped\n");
        let pid = running.0.id().to_string();
        let audit = json(&quell(&["doctor", "--json", "-p", &pid]).stdout);
        let finding = found(&audit, "PROC-WBMAP");
        assert_eq!(finding["status"], expected, "{finding:#}");
        assert_eq!(audit["pid"], running.0.id());
    }
}

/// Every file below that can be read and written, and what it says.
fn settings(below: &Path, all: &mut BTreeMap<PathBuf, String>) {
    for entry in fs::read_dir(below).into_iter().flatten().flatten() {
        let path = entry.path();
        // a link may lead in a circle
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => settings(&path, all),
            Ok(kind) if kind.is_file() => {
                let mode = entry.metadata().map_or(0, |m| m.permissions().mode());
                if mode & 0o200 == 0 {
                    continue;
                }
                if let Ok(text) = fs::read_to_string(&path) {
                    all.insert(path, text);
                }
            }
            _ => {}
        }
    }
}

/// What the kernel's settings say, by file.
fn all_settings() -> BTreeMap<PathBuf, String> {
    let mut all = BTreeMap::new();
    for below in [
        "/proc/sys/vm",
        "/proc/sys/kernel",
        "/sys/kernel/mm",
        "/sys/devices/system/machinecheck",
    ] {
        settings(Path::new(below), &mut all);
    }
    all
}

/// Check that changes that fail for want of rights are not promised to be taken back, and leave no undo file.
#[test]
fn what_failed_is_not_taken_back() {
    const TEST: &str = "what_failed_is_not_taken_back";
    let _beside = beside_others();
    let dir = tempfile::tempdir().expect("a folder");
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).expect("a folder for all");
    let undo = dir.path().join("undo.json");
    let file = undo.to_str().expect("a path");
    let args = [
        "doctor",
        "--apply",
        "--yes",
        "--fail-on",
        "info",
        "--undo-file",
        file,
    ];
    let Some(out) = as_nobody(TEST, &args) else {
        return;
    };
    let said = String::from_utf8_lossy(&out.stderr);
    if said.contains("nothing to change") {
        eprintln!("SKIPPED {TEST}: no hazard here has a setting that can be changed");
        return;
    }
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert!(said.contains("nothing was changed"), "{said}");
    assert!(!said.contains("back"), "{said}");
    assert!(!undo.exists());
}

/// Check that an undo file that names a link on another file system below /sys, or a file below such a link, has nothing
/// written there.
#[test]
fn links_are_not_written_through() {
    const TEST: &str = "links_are_not_written_through";
    if !root_only(TEST) {
        return;
    }
    let _beside = beside_others();
    let dir = tempfile::tempdir().expect("a folder");
    let victim = dir.path().join("victim");
    fs::write(&victim, "mine\n").expect("a file");
    for (name, to) in [("link", victim.as_path()), ("link/victim", dir.path())] {
        let undo = dir.path().join("undo.json");
        let text = format!(
            "{{\"schema\":\"quell/undo/1\",\"changes\":[{{\"rule\":\"X\",\"path\":\"/sys/fs/cgroup/{name}\",\
             \"before\":\"written\",\"after\":\"1\"}}]}}"
        );
        fs::write(&undo, text).expect("an undo file");
        // in mounts of its own, which end with it
        let script =
            "mount -t tmpfs none /sys/fs/cgroup && ln -s \"$1\" /sys/fs/cgroup/link || exit 9
            exec \"$2\" doctor --undo \"$3\"";
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", script, "sh"]);
        let out = command.arg(to).arg(QUELL).arg(&undo).output();
        let out = out.expect("unshare starts");
        if out.status.code() == Some(9) {
            eprintln!("SKIPPED {TEST}: nothing can be mounted here");
            return;
        }
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(1), "{name}: {said}");
        assert_eq!(
            fs::read_to_string(&victim).expect("a file"),
            "mine\n",
            "{said}"
        );
    }
}

/// Check that --apply changes settings of a real kernel, and that --undo makes every one read as before: after an apply that
/// ended, and after ones that were killed at whatever moment.
#[test]
fn changes_are_undone() {
    if !emulated_only("changes_are_undone") {
        return;
    }
    for (file, value) in [
        ("/sys/kernel/mm/transparent_hugepage/enabled", "always"),
        ("/sys/kernel/mm/transparent_hugepage/defrag", "always"),
        ("/sys/kernel/mm/ksm/run", "1"),
        ("/proc/sys/vm/stat_interval", "1"),
        ("/proc/sys/vm/compaction_proactiveness", "20"),
        ("/proc/sys/kernel/numa_balancing", "1"),
    ] {
        fs::write(file, value).unwrap_or_else(|err| panic!("{file}: {err}"));
    }
    let dir = tempfile::tempdir().expect("a folder");
    let undo = dir.path().join("undo.json");
    let file = undo.to_str().expect("a path");
    let apply = [
        "doctor",
        "--profile",
        "low-latency",
        "--apply",
        "--yes",
        "--fail-on",
        "info",
        "--undo-file",
        file,
    ];
    // settings, and not counters
    let before = all_settings();
    quell(&["doctor"]);
    let again = all_settings();
    let steady: Vec<_> = before
        .iter()
        .filter(|(path, text)| again.get(*path) == Some(text))
        .collect();

    let out = quell(&apply);
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(0), "{said}");
    println!("{said}");
    let saved = fs::read(&undo).expect("an undo file");
    let saved: Value = serde_json::from_slice(&saved).expect("JSON");
    let changes = saved["changes"].as_array().expect("changes");
    assert!(changes.len() >= 5, "{saved:#}");
    for change in changes {
        let path = change["path"].as_str().expect("a path");
        let now = fs::read_to_string(path).expect("it reads");
        let after = change["after"].as_str().expect("a value");
        assert!(
            now.trim() == after || now.contains(&format!("[{after}]")),
            "{path}: {now}"
        );
        assert_ne!(before.get(Path::new(path)), Some(&now), "{path}");
    }
    let changed: Vec<PathBuf> = changes
        .iter()
        .filter_map(|c| c["path"].as_str())
        .map(PathBuf::from)
        .collect();
    let is_as_before = |when: &str| {
        let now = all_settings();
        let differ = |path: &PathBuf| now.get(path) != before.get(path);
        let all: Vec<_> = steady
            .iter()
            .map(|(path, _)| *path)
            .chain(&changed)
            .filter(|p| differ(p))
            .collect();
        assert!(all.is_empty(), "{when}: {all:?}");
    };
    let out = quell(&["doctor", "--undo", file]);
    assert!(out.status.success(), "{out:?}");
    is_as_before("undone");
    assert!(!undo.exists());

    let mut halfway = 0;
    for ms in 0..30 {
        let mut child = Command::new(QUELL)
            .args(apply)
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        std::thread::sleep(Duration::from_millis(ms * 20));
        let _ = child.kill();
        child.wait().expect("a status");
        if undo.exists() {
            halfway += 1;
            let out = quell(&["doctor", "--undo", file]);
            if !out.status.success() {
                // it was killed as it wrote what was, before any change
                fs::remove_file(&undo).expect("removed");
            }
        }
        is_as_before("killed");
    }
    println!("{halfway} of 30 were killed after they had begun, or ended before");
    assert!(halfway > 0, "none came so far");
}
