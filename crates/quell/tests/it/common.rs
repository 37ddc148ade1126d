//! What the tests of the binary share.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use serde_json::Value;

/// The binary under test.
pub(crate) const QUELL: &str = env!("CARGO_BIN_EXE_quell");

/// True for root. Otherwise says loudly that the test was skipped.
pub(crate) fn root_only(test: &str) -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("SKIPPED {test}: needs root, for the probe");
    }
    root
}

/// Is this a virtual machine of `make test-kernels`, without KVM? It is a hundred times slower, and thrown away.
pub(crate) fn emulated() -> bool {
    std::env::var_os("QUELL_TEST_VM").is_some()
}

/// True there. Otherwise says loudly that the test was skipped.
pub(crate) fn emulated_only(test: &str) -> bool {
    let emulated = emulated();
    if !emulated {
        eprintln!(
            "SKIPPED {test}: changes the system, so 'make test-kernels' runs it in a virtual machine"
        );
    }
    emulated
}

/// Who has the CPUs.
static CPUS: RwLock<()> = RwLock::new(());

/// No other test beside this one: a culprit whose peer is off its CPU finds nobody to hit.
pub(crate) fn alone() -> RwLockWriteGuard<'static, ()> {
    // a test that failed holds nobody up
    CPUS.write().unwrap_or_else(PoisonError::into_inner)
}

/// For a test that keeps CPUs busy, and doesn't mind others that do.
pub(crate) fn beside_others() -> RwLockReadGuard<'static, ()> {
    CPUS.read().unwrap_or_else(PoisonError::into_inner)
}

/// Without the lock of `quell lab`, for tests run beside each other.
pub(crate) const LAB_LOCK: (&str, &str) = ("QUELL_LAB_LOCK", "");

/// How long tests wait for what has to come: it bounds what never comes, and says nothing of how quick a machine is.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);

/// Whether it comes true in the end.
pub(crate) fn comes_true(mut is_true: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        if is_true() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    is_true()
}

/// How often a test tries to see what a machine that is busy with other work may not show.
pub(crate) const GOES: usize = 5;

/// Says loudly that a test saw nothing wrong, and did not see what it is for either.
pub(crate) fn too_busy(test: &str, what: &str) {
    eprintln!("SKIPPED {test}: this machine is too busy or too slow to show it: {what}");
}

/// What makes a command's threads get their CPUs although others want them, as nearly all of the time is theirs.
/// A virtual machine of ours has nobody else, and no `nice`.
pub(crate) fn first() -> &'static [&'static str] {
    if emulated() {
        &["env"]
    } else {
        &["nice", "-n", "-20"]
    }
}

/// A command whose first thread runs as soon as it is woken, whoever else wants the CPU; what it starts does not.
pub(crate) fn at_once(command: &mut Command) -> &mut Command {
    // SAFETY: a system call in the child, which reads `param` only. Without the right to it, it stays as it was.
    unsafe {
        std::os::unix::process::CommandExt::pre_exec(command, || {
            let param = libc::sched_param { sched_priority: 1 };
            libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &param);
            Ok(())
        })
    }
}

/// Runs quell to its end.
pub(crate) fn quell(args: &[&str]) -> Output {
    Command::new(QUELL)
        .args(args)
        .env(LAB_LOCK.0, LAB_LOCK.1)
        .output()
        .expect("quell starts")
}

/// An example program of this crate, which cargo built beside the tests.
pub(crate) fn example(name: &str) -> String {
    let dir = Path::new(QUELL)
        .parent()
        .expect("a folder")
        .join("examples")
        .join(name);
    assert!(
        dir.exists(),
        "{} is not built: run 'cargo build --release --examples'",
        dir.display()
    );
    dir.display().to_string()
}

/// Builds the worst case of bench/overhead; or takes the one that is named, where there is no compiler.
pub(crate) fn worst(dir: &Path) -> PathBuf {
    if let Some(built) = std::env::var_os("QUELL_TEST_WORST") {
        return built.into();
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/overhead/worst.c");
    let out = dir.join("worst");
    let status = Command::new("cc")
        .args(["-O2", "-fno-omit-frame-pointer", "-pthread", "-o"])
        .arg(&out)
        .arg(source)
        .status()
        .expect("cc starts");
    assert!(status.success(), "cc builds worst.c");
    out
}

/// The last line of the output that is a JSON object.
pub(crate) fn json(text: &[u8]) -> Value {
    let text = String::from_utf8_lossy(text);
    let line = text.lines().rfind(|l| l.starts_with('{'));
    let line = line.unwrap_or_else(|| panic!("no JSON in: {text}"));
    serde_json::from_str(line).unwrap_or_else(|e| panic!("{e} in: {line}"))
}

/// A figure of one cause, 0 if the cause is not there.
pub(crate) fn cause(stat: &Value, name: &str, figure: &str) -> u64 {
    let causes = stat["causes"].as_array().expect("causes");
    causes
        .iter()
        .filter(|c| c["cause"] == name)
        .filter_map(|c| c[figure].as_u64())
        .sum()
}

/// `TLB:` of /proc/interrupts, all CPUs.
pub(crate) fn tlb_interrupts() -> u64 {
    let text = std::fs::read_to_string("/proc/interrupts").expect("/proc/interrupts");
    let line = text
        .lines()
        .find(|l| l.trim_start().starts_with("TLB:"))
        .expect("a TLB: line");
    line.split_whitespace()
        .filter_map(|w| w.parse::<u64>().ok())
        .sum()
}
