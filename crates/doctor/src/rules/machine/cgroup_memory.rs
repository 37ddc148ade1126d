//! CG-MEM: the memory of its cgroup is limited, and the limit was reached.

use quell_event::Cause;

use crate::finding::{Read, Severity};
use crate::fix::{Fix, quoted};
use crate::look::{Look, Value};
use crate::process::Process;
use crate::rule::{Check, Checked, Rule};

use super::common::Cgroup;

/// Limits of cgroup v1 from here on are none (PAGE_COUNTER_MAX of include/linux/page_counter.h).
const NONE_V1: u64 = 1 << 62;

pub(super) const RULE: Rule = Rule {
    id: "CG-MEM",
    title: "its cgroup ran into a limit of memory",
    severity: Severity::High,
    why: "A thread that asks for memory at the limit has to reclaim some first, which unmaps and flushes pages \
          of the same cgroup, or is put to sleep for it.",
    risk: "A program that leaks takes memory of others before it is stopped; without swap it is killed sooner.",
    source: "kernel Documentation/admin-guide/cgroup-v2.rst, memory.high, memory.max and memory.events; \
             Documentation/admin-guide/cgroup-v1/memory.rst",
    causes: &[Cause::Reclaim],
    check: Check::Process(check),
};

/// How often they were reached, all together.
pub(crate) const COUNTER: &str = "process.memory_limit_reached";

/// A limit that is set, and how often it was reached.
struct Limit {
    /// Of the cgroup that it is of.
    folder: String,
    path: String,
    bytes: u64,
    reached: u64,
}

fn check(look: &Look<'_>, process: &Process) -> Checked {
    let path = process.path("cgroup");
    let cgroup = Cgroup::of(process, "memory").filter(|c| c.is_visible(look));
    let Some(cgroup) = cgroup else {
        return Checked::unknown("its cgroup can't be seen from here")
            .read([Read::new(path, "(not readable)")]);
    };
    let (limits, unread) = limits(look, &cgroup);
    let mut reads = vec![Read::new(path, cgroup.folder.clone())];
    let shown = |l: &Limit| {
        Read::new(
            &*l.path,
            format!("{} bytes, reached {} times", l.bytes, l.reached),
        )
    };
    reads.extend(limits.iter().map(shown));
    // how long its tasks waited for memory
    if let (Value::Text(_), read) = look.read(&format!("{}/memory.pressure", cgroup.folder)) {
        reads.push(read);
    }
    let reached: Vec<&Limit> = limits.iter().filter(|l| l.reached > 0).collect();
    let most = reached.iter().max_by_key(|l| l.reached);
    let checked = if let Some(most) = most {
        let said = format!(
            "{} was reached {} times since it was made",
            most.path, most.reached
        );
        match look.evidence().grown(COUNTER) {
            Some(0) => Checked::ok(format!("{said}, and not while it was watched")),
            Some(_) => fixes(look, Checked::hazard(said), &cgroup, &reached),
            // it may have been once, long ago
            None => fixes(
                look,
                Checked::hazard(format!("{said}; when is not known (--duration tells)"))
                    .severity(Severity::Medium),
                &cgroup,
                &reached,
            ),
        }
    } else if unread {
        Checked::unknown("the limits of its cgroup can't be read")
    } else if limits.is_empty() {
        Checked::ok("its memory is not limited")
    } else {
        Checked::ok("its limits were not reached so far")
    };
    checked.read(reads).grows(&[COUNTER])
}

/// How often the limits of a process's memory were reached; `None` if that can't be read.
pub(super) fn reached(look: &Look<'_>, process: &Process) -> Option<u64> {
    let cgroup = Cgroup::of(process, "memory").filter(|c| c.is_visible(look))?;
    let (limits, unread) = limits(look, &cgroup);
    (!unread).then(|| limits.iter().map(|l| l.reached).sum())
}

/// The limits of a cgroup and of those above, and whether one could not be read.
fn limits(look: &Look<'_>, cgroup: &Cgroup) -> (Vec<Limit>, bool) {
    let (mut limits, mut unread) = (Vec::new(), false);
    for folder in cgroup.levels() {
        let names: &[&str] = if cgroup.v2 {
            &["memory.high", "memory.max"]
        } else {
            &["memory.limit_in_bytes"]
        };
        for name in names {
            match limit(look, &folder, name) {
                Ok(limit) => limits.extend(limit),
                Err(()) => unread = true,
            }
        }
    }
    (limits, unread)
}

/// `Ok(None)` where none is set: the root has no such files.
fn limit(look: &Look<'_>, folder: &str, name: &str) -> Result<Option<Limit>, ()> {
    let path = format!("{folder}/{name}");
    let bytes = match look.file(&path) {
        Value::Absent => return Ok(None),
        Value::Text(text) if text.trim() == "max" => return Ok(None),
        Value::Text(text) => text.trim().parse::<u64>().map_err(|_| ())?,
        Value::Refused(_) => return Err(()),
    };
    let reached = match name.strip_prefix("memory.") {
        Some("limit_in_bytes") if bytes >= NONE_V1 => return Ok(None),
        Some("limit_in_bytes") => {
            let failed = look.file(&format!("{folder}/memory.failcnt"));
            failed.number().and_then(|n| u64::try_from(n).ok())
        }
        Some(event) => event_count(look, folder, event),
        None => None,
    };
    let reached = reached.ok_or(())?;
    Ok(Some(Limit {
        folder: folder.to_owned(),
        path,
        bytes,
        reached,
    }))
}

/// The `.local` file (from 5.2 on) leaves out what happened to cgroups below.
fn event_count(look: &Look<'_>, folder: &str, event: &str) -> Option<u64> {
    let local = look.file(&format!("{folder}/memory.events.local"));
    let events = match local {
        Value::Absent => look.file(&format!("{folder}/memory.events")),
        other => other,
    };
    let mut lines = events.text()?.lines();
    lines.find_map(|l| {
        l.strip_prefix(event)?
            .strip_prefix(' ')?
            .trim()
            .parse()
            .ok()
    })
}

fn fixes(look: &Look<'_>, checked: Checked, cgroup: &Cgroup, reached: &[&Limit]) -> Checked {
    let mut checked = checked;
    for limit in reached {
        // memory.high only slows the program down, memory.max still guards the others
        checked = if limit.path.ends_with("/memory.high") {
            checked
                .fix(Fix::Command(format!("echo max > {}", quoted(&limit.path))))
                .fix(lifted(cgroup, &limit.folder))
        } else {
            let directive = if cgroup.v2 {
                "MemoryMax="
            } else {
                "MemoryLimit="
            };
            checked.fix(Fix::Advice(format!(
                "cgroup: raise {} above what the program and the files it reads need, now {} bytes (systemd: \
                 {directive})",
                limit.path, limit.bytes
            )))
        };
    }
    let swap = look.file(&format!("{}/memory.swap.max", cgroup.folder));
    if swap.text().is_some_and(|text| text.trim() != "0") {
        checked = checked.fix(Fix::Directive("MemorySwapMax=0".to_owned()));
    }
    checked
}

/// A service lifts its own limit, and not that of a slice above it.
fn lifted(cgroup: &Cgroup, folder: &str) -> Fix {
    let unit = folder.rsplit('/').next().unwrap_or_default();
    if folder == cgroup.folder || unit.ends_with(".service") {
        return Fix::Directive("MemoryHigh=infinity".to_owned());
    }
    Fix::Advice(format!(
        "systemctl set-property {} MemoryHigh=infinity",
        quoted(unit)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Status;
    use crate::rules::fixture::{ask, ask_with, assert_hazard, grown, status};

    const V2: (&str, &str) = ("PID/cgroup", "0::/a.slice/b.service");
    const PROCS: (&str, &str) = ("/sys/fs/cgroup/a.slice/b.service/cgroup.procs", "4711");
    const HIGH: &str = "/sys/fs/cgroup/a.slice/b.service/memory.high";
    const SWAP: &str = "/sys/fs/cgroup/a.slice/b.service/memory.swap.max";
    const EVENTS: &str = "/sys/fs/cgroup/a.slice/b.service/memory.events.local";
    const ABOVE: &str = "/sys/fs/cgroup/a.slice/memory.max";
    const HIGH_ABOVE: &str = "/sys/fs/cgroup/a.slice/memory.high";
    const EVENTS_ABOVE: &str = "/sys/fs/cgroup/a.slice/memory.events";

    /// Check that limits that were reached are hazards, also above the program's own cgroup.
    #[test]
    fn reached_limits_are_hazards() {
        let files = [
            V2,
            PROCS,
            (HIGH, "1048576"),
            (SWAP, "max"),
            (EVENTS, "low 0\nhigh 12\nmax 0\noom 0"),
            (ABOVE, "2097152"),
            (EVENTS_ABOVE, "low 0\nhigh 0\nmax 3"),
        ];
        let found = ask(&RULE, &files);
        assert_hazard(
            &found,
            "echo max > /sys/fs/cgroup/a.slice/b.service/memory.high",
            "systemd service: MemoryHigh=infinity\n\
             cgroup: raise /sys/fs/cgroup/a.slice/memory.max above what the program and the files it reads need, \
             now 2097152 bytes (systemd: MemoryMax=)\n\
             systemd service: MemorySwapMax=0",
        );
        assert!(found.said.contains("12 times"), "{}", found.said);
    }

    /// Check that a limit of a slice is lifted there, and not by the service.
    #[test]
    fn limits_of_a_slice() {
        let files = [
            V2,
            PROCS,
            (HIGH_ABOVE, "1048576"),
            (EVENTS_ABOVE, "high 3\nmax 0"),
        ];
        assert_hazard(
            &ask(&RULE, &files),
            "echo max > /sys/fs/cgroup/a.slice/memory.high",
            "systemctl set-property a.slice MemoryHigh=infinity",
        );
    }

    /// Check that a limit that was reached before somebody watched is none that does harm.
    #[test]
    fn long_ago() {
        let files = [V2, PROCS, (HIGH, "1048576"), (EVENTS, "high 1\nmax 0")];
        assert_eq!(ask(&RULE, &files).severity, Severity::Medium);
        let quiet = ask_with(&RULE, &files, &grown(COUNTER, 0));
        assert_eq!(quiet.status, Status::Ok);
        let now = ask_with(&RULE, &files, &grown(COUNTER, 2));
        assert_eq!(now.severity, Severity::High);
        assert_eq!(now.harm.unwrap().count, 2);
    }

    /// Check that limits that were not reached, or are none, are fine, and what can't be seen is unknown.
    #[test]
    fn other_limits() {
        let quiet = [V2, PROCS, (HIGH, "1048576"), (EVENTS, "high 0\nmax 4")];
        assert_eq!(status(&RULE, &quiet), Status::Ok);
        assert_eq!(status(&RULE, &[V2, PROCS, (HIGH, "max")]), Status::Ok);
        assert_eq!(status(&RULE, &[V2, PROCS]), Status::Ok);
        assert_eq!(
            status(&RULE, &[V2, PROCS, (HIGH, "1048576")]),
            Status::Unknown
        );
        assert_eq!(
            status(&RULE, &[V2, PROCS, (HIGH, "garbage")]),
            Status::Unknown
        );
        assert_eq!(status(&RULE, &[V2]), Status::Unknown);
        assert_eq!(status(&RULE, &[]), Status::Unknown);
    }

    /// Check that cgroup v1 is read by its own names, and its highest number is no limit.
    #[test]
    fn version_1() {
        let files = |bytes| {
            [
                ("PID/cgroup", "4:memory:/box\n3:cpuset:/\n0::/"),
                ("/sys/fs/cgroup/memory/box/cgroup.procs", "4711"),
                ("/sys/fs/cgroup/memory/box/memory.limit_in_bytes", bytes),
                ("/sys/fs/cgroup/memory/box/memory.failcnt", "7"),
            ]
        };
        let found = ask(&RULE, &files("1048576"));
        assert_eq!(found.status, Status::Hazard);
        assert!(found.fix_lasting().ends_with("(systemd: MemoryLimit=)"));
        assert_eq!(status(&RULE, &files("9223372036854771712")), Status::Ok);
    }
}
