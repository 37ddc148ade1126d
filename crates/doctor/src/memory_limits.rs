//! The limits of a process's memory, and how often they were reached.

use crate::cgroup::ControllerCgroup;
use crate::file_value::FileValue;
use crate::process::AuditedProcess;
use crate::system_files::SystemFiles;

/// Limits of cgroup v1 from here on are none (PAGE_COUNTER_MAX of include/linux/page_counter.h).
const MIN_UNLIMITED_V1_BYTES: u64 = 1 << 62;

/// How often they were reached, all together.
pub(crate) const LIMIT_REACHED_COUNTER: &str = "process.memory_limit_reached";

/// A limit that is set, and how often it was reached.
pub(crate) struct CgroupLimit {
    /// The folder of the cgroup that has the limit.
    pub(crate) folder: String,
    pub(crate) path: String,
    pub(crate) bytes: u64,
    pub(crate) reached: u64,
}

/// How often the limits of a process's memory were reached; `None` if that can't be read.
pub(crate) fn count_limits_reached(files: &SystemFiles, process: &AuditedProcess) -> Option<u64> {
    let cgroup = ControllerCgroup::of_process(process, "memory").filter(|c| c.is_visible(files))?;
    let (limits, unread) = read_limits(files, &cgroup);
    (!unread).then(|| limits.iter().map(|l| l.reached).sum())
}

/// The limits of a cgroup and of those above, and whether one could not be read.
pub(crate) fn read_limits(
    files: &SystemFiles,
    cgroup: &ControllerCgroup,
) -> (Vec<CgroupLimit>, bool) {
    let (mut limits, mut unread) = (Vec::new(), false);
    for folder in cgroup.folders_upward() {
        let names: &[&str] = if cgroup.v2 {
            &["memory.high", "memory.max"]
        } else {
            &["memory.limit_in_bytes"]
        };
        for name in names {
            match read_limit(files, &folder, name) {
                Ok(limit) => limits.extend(limit),
                Err(()) => unread = true,
            }
        }
    }
    (limits, unread)
}

/// `Ok(None)` where none is set: the root has no such files.
fn read_limit(files: &SystemFiles, folder: &str, name: &str) -> Result<Option<CgroupLimit>, ()> {
    let path = format!("{folder}/{name}");
    let bytes = match files.file(&path) {
        FileValue::Absent => return Ok(None),
        FileValue::Text(text) if text.trim() == "max" => return Ok(None),
        FileValue::Text(text) => text.trim().parse::<u64>().map_err(|_| ())?,
        FileValue::Refused(_) => return Err(()),
    };
    let reached = match name.strip_prefix("memory.") {
        Some("limit_in_bytes") if bytes >= MIN_UNLIMITED_V1_BYTES => return Ok(None),
        Some("limit_in_bytes") => {
            let failed = files.file(&format!("{folder}/memory.failcnt"));
            failed.number().and_then(|n| u64::try_from(n).ok())
        }
        Some(event) => event_count(files, folder, event),
        None => None,
    };
    let reached = reached.ok_or(())?;
    Ok(Some(CgroupLimit {
        folder: folder.to_owned(),
        path,
        bytes,
        reached,
    }))
}

/// The `.local` file (from 5.2 on) leaves out what happened to cgroups below.
fn event_count(files: &SystemFiles, folder: &str, event: &str) -> Option<u64> {
    let local = files.file(&format!("{folder}/memory.events.local"));
    let events = match local {
        FileValue::Absent => files.file(&format!("{folder}/memory.events")),
        other => other,
    };
    events.field(event)?.parse().ok()
}
