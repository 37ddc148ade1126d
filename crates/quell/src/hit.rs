//! The time that a victim loses by a shootdown on this machine, measured once and kept until it boots.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use serde::{Deserialize, Serialize};

/// The time is kept here, because files in /run are gone with the next boot.
const HIT_FOLDER: &str = "/run/quell";
const HIT_FILE: &str = "/run/quell/hit.json";

/// The machine that the measured time holds for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct MeasuredMachine {
    boot: String,
    kernel: String,
    cpu: String,
}

#[derive(Serialize, Deserialize)]
struct KeptHit {
    machine: MeasuredMachine,
    hit_ns: u64,
}

fn read_trimmed(path: &str) -> String {
    fs::read_to_string(path)
        .unwrap_or_default()
        .trim()
        .to_owned()
}

fn this_machine() -> MeasuredMachine {
    let info = read_trimmed("/proc/cpuinfo");
    let line = |name: &str| {
        info.lines()
            .find(|l| l.starts_with(name))
            .unwrap_or_default()
    };
    MeasuredMachine {
        boot: read_trimmed("/proc/sys/kernel/random/boot_id"),
        kernel: read_trimmed("/proc/sys/kernel/osrelease"),
        // A hypervisor may move a machine to another CPU while it runs.
        cpu: format!("{} {}", line("model name"), line("microcode")),
    }
}

/// The time that is kept for this machine, if root alone could write it.
fn kept_hit_ns(machine: &MeasuredMachine) -> Option<u64> {
    let is_roots =
        |path: &str| fs::symlink_metadata(path).is_ok_and(|m| m.uid() == 0 && !m.is_symlink());
    if !is_roots(HIT_FOLDER) || !is_roots(HIT_FILE) {
        return None;
    }
    let kept: KeptHit = serde_json::from_str(&read_trimmed(HIT_FILE)).ok()?;
    (kept.machine == *machine).then_some(kept.hit_ns)
}

/// Keeps the measured time for the next run, where that can be; otherwise it is only measured again.
fn keep_hit_ns(machine: &MeasuredMachine, hit_ns: u64) -> Option<()> {
    let _ = fs::create_dir(HIT_FOLDER);
    let new = format!("{HIT_FILE}.{}", std::process::id());
    let text = serde_json::to_string(&KeptHit {
        machine: machine.clone(),
        hit_ns,
    });
    let mut options = fs::OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o644)
        .open(&new)
        .ok()?;
    let written = file.write_all(text.ok()?.as_bytes());
    if written.and_then(|()| fs::rename(&new, HIT_FILE)).is_err() {
        let _ = fs::remove_file(Path::new(&new));
    }
    Some(())
}

/// How long one hit takes here, ns, if it was measured since this machine was booted.
pub(crate) fn known_ns() -> Option<u64> {
    kept_hit_ns(&this_machine())
}

/// The same, measured now if it was not: half a second of two of the CPUs that quell may use. `None` where it can't be.
pub(crate) fn measured_ns() -> Option<u64> {
    let machine = this_machine();
    if let Some(known) = kept_hit_ns(&machine) {
        return Some(known);
    }
    let measured = quell_lab::hit::measure_ns();
    // Nothing is kept where others had the CPUs: another try may do better.
    if let Some(ns) = measured {
        keep_hit_ns(&machine, ns);
    }
    measured
}
