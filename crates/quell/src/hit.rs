//! What a victim loses by a shootdown on this machine: measured once, and kept until it boots.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use serde::{Deserialize, Serialize};

/// Where it is kept: what lies here is gone with the next boot.
const FOLDER: &str = "/run/quell";
const FILE: &str = "/run/quell/hit.json";

/// What it holds for.
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

fn read(path: &str) -> String {
    fs::read_to_string(path)
        .unwrap_or_default()
        .trim()
        .to_owned()
}

fn machine() -> MeasuredMachine {
    let info = read("/proc/cpuinfo");
    let line = |name: &str| {
        info.lines()
            .find(|l| l.starts_with(name))
            .unwrap_or_default()
    };
    MeasuredMachine {
        boot: read("/proc/sys/kernel/random/boot_id"),
        kernel: read("/proc/sys/kernel/osrelease"),
        // a hypervisor may move a machine to another CPU while it runs
        cpu: format!("{} {}", line("model name"), line("microcode")),
    }
}

/// What is kept for this machine, if that is root's own word.
fn kept(machine: &MeasuredMachine) -> Option<u64> {
    let is_roots =
        |path: &str| fs::symlink_metadata(path).is_ok_and(|m| m.uid() == 0 && !m.is_symlink());
    if !is_roots(FOLDER) || !is_roots(FILE) {
        return None;
    }
    let kept: KeptHit = serde_json::from_str(&read(FILE)).ok()?;
    (kept.machine == *machine).then_some(kept.hit_ns)
}

/// KeptHit for the next one, where that can be; it is only measured again otherwise.
fn keep(machine: &MeasuredMachine, hit_ns: u64) -> Option<()> {
    let _ = fs::create_dir(FOLDER);
    let new = format!("{FILE}.{}", std::process::id());
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
    if written.and_then(|()| fs::rename(&new, FILE)).is_err() {
        let _ = fs::remove_file(Path::new(&new));
    }
    Some(())
}

/// What one hit takes here, ns, as measured before since this machine was booted.
pub(crate) fn known_ns() -> Option<u64> {
    kept(&machine())
}

/// The same, measured now if it was not: half a second of two of the CPUs that quell may use. `None` where it can't be.
pub(crate) fn measured_ns() -> Option<u64> {
    let machine = machine();
    if let Some(known) = kept(&machine) {
        return Some(known);
    }
    let measured = quell_lab::hit::measure_ns();
    // where others had the CPUs another try may do better
    if let Some(ns) = measured {
        keep(&machine, ns);
    }
    measured
}
