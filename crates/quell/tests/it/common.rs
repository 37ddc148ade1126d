//! What the tests of the binary share.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

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
