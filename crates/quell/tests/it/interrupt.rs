//! Ctrl-C and kill -9 in the middle of a recording.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::common::{
    GOES, QUELL, at_once, beside_others, comes_true, json, quell, root_only, worst,
};
use quell_event::trace::Trace;

/// A recording of the worst case that would run for minutes, once it has some thousand shootdowns and stacks on the disk; it
/// empties the ring in time, whoever else wants the CPUs.
fn recording(dir: &Path, program: &Path) -> Child {
    let mut command = Command::new(QUELL);
    let child = at_once(&mut command)
        .arg("record")
        .args(["-o".as_ref(), dir.as_os_str()])
        .args(["--".as_ref(), program.as_os_str(), "100000000".as_ref()])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("quell starts");
    let counted = || {
        let tally = Trace::open(dir).ok()?.read_tally().ok()??;
        Some(tally.total_counts().shootdowns)
    };
    // stacks come after the first second
    let stacks = || std::fs::metadata(dir.join("stacks.jsonl")).is_ok_and(|file| file.len() > 0);
    let shoots = comes_true(|| counted() > Some(3000) && stacks());
    assert!(shoots, "{:?} shootdowns", counted());
    child
}

/// The processes that run this program.
pub(crate) fn running(program: &Path) -> Vec<i32> {
    let all = std::fs::read_dir("/proc").expect("/proc");
    all.filter_map(|e| e.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid| {
            std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == program)
        })
        .collect()
}

pub(crate) fn signal(pid: u32, signal: i32) {
    // SAFETY: sends a signal to a process that this test started and has not waited for.
    let sent = unsafe { libc::kill(pid.cast_signed(), signal) };
    assert_eq!(sent, 0);
}

/// Check that Ctrl-C ends a recording with a whole, readable trace and no child left behind.
#[test]
fn interrupt_leaves_a_trace_and_no_child() {
    if !root_only("interrupt_leaves_a_trace_and_no_child") {
        return;
    }
    let _beside = beside_others();
    let dir = tempfile::tempdir().expect("a folder");
    let program = worst(dir.path());
    let trace = dir.path().join("t.quell");
    let mut child = recording(&trace, &program);
    signal(child.id(), libc::SIGINT);
    let ended = comes_true(|| child.try_wait().is_ok_and(|s| s.is_some()));
    if !ended {
        let _ = child.kill();
    }
    assert!(ended, "it goes on");
    assert_eq!(running(&program), [0; 0]);
    assert!(!Trace::open(&trace).expect("a trace").cut_short());
    let out = quell(&["report", "--json", trace.to_str().expect("a path")]);
    assert!(json(&out.stdout)["shootdowns"].as_u64() > Some(1000));
}

/// Check that a quell that is killed while it proves takes along the command that it measures.
#[test]
fn killed_proof_leaves_no_command() {
    if !root_only("killed_proof_leaves_no_command") {
        return;
    }
    let _beside = beside_others();
    let dir = tempfile::tempdir().expect("a folder");
    let program = worst(dir.path());
    let mut child = Command::new(QUELL)
        .args(["prove", "--"])
        .args([program.as_os_str(), "100000000".as_ref()])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("quell starts");
    comes_true(|| !running(&program).is_empty());
    assert_eq!(running(&program).len(), 1, "the observed run has begun");
    signal(child.id(), libc::SIGKILL);
    child.wait().expect("quell ends");
    comes_true(|| running(&program).is_empty());
    let left = running(&program);
    for &pid in &left {
        signal(pid.cast_unsigned(), libc::SIGKILL);
    }
    assert_eq!(left, [0; 0]);
}

/// Check that after kill -9 the report reads everything up to the last second.
#[test]
fn kill_loses_at_most_a_second() {
    if !root_only("kill_loses_at_most_a_second") {
        return;
    }
    let _beside = beside_others();
    let dir = tempfile::tempdir().expect("a folder");
    let program = worst(dir.path());
    let lost = |path: &Path| {
        let mut child = recording(path, &program);
        let killed = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        signal(child.id(), libc::SIGKILL);
        child.wait().expect("quell ends");
        for pid in running(&program) {
            signal(pid.cast_unsigned(), libc::SIGKILL);
        }
        let trace = Trace::open(path).expect("a trace");
        assert!(trace.cut_short());
        let mut last = 0;
        trace
            .for_each_row(|row| last = last.max(row.t_ns))
            .expect("rows");
        let killed = u64::try_from(killed.tv_sec * 1_000_000_000 + killed.tv_nsec).expect("a time");
        let lost = Duration::from_nanos(killed.saturating_sub(last));
        println!("lost the last {lost:?}");
        lost
    };
    let paths: Vec<_> = (0..GOES)
        .map(|go| dir.path().join(format!("{go}.quell")))
        .collect();
    // where the disk or the CPU is somebody else's for so long there is more to lose
    let a_second = |path: &&std::path::PathBuf| lost(path) <= Duration::from_secs(1);
    let path = paths.iter().find(a_second);
    let path = path.expect("one of several that has lost no more than a second");
    let out = quell(&["report", path.to_str().expect("a path")]);
    let text = String::from_utf8_lossy(&out.stdout);
    assert_eq!(out.status.code(), Some(0), "{text}");
    assert!(text.contains("cut short"), "{text}");
    assert!(text.contains("give_back (worst)"), "{text}");
}
