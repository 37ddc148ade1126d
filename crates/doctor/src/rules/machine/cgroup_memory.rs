//! CG-MEM: the memory of its cgroup is limited, and the limit was reached.

use crate::cgroup::ControllerCgroup;
use crate::fix::shell_argument;
use crate::memory_limits::{CgroupLimit, LIMIT_REACHED_COUNTER, read_limits};
use crate::rules::prelude::*;

pub(super) const CG_MEM: AuditRule = AuditRule {
    id: "CG-MEM",
    title: "its cgroup ran into a limit of memory",
    severity: Severity::High,
    why: "A thread that asks for memory at the limit has to reclaim some first, which unmaps and flushes pages \
          of the same cgroup, or is put to sleep for it.",
    risk: "A program that leaks takes memory of others before it is stopped; without swap it is killed sooner.",
    source: "kernel Documentation/admin-guide/cgroup-v2.rst, memory.high, memory.max and memory.events; \
             Documentation/admin-guide/cgroup-v1/memory.rst",
    causes: &[Cause::Reclaim],
    check: RuleCheck::Process(check_cg_mem),
};

fn check_cg_mem(look: &SystemView<'_>, process: &AuditedProcess) -> CheckResult {
    let path = process.proc_path("cgroup");
    let cgroup = ControllerCgroup::of_process(process, "memory").filter(|c| c.is_visible(look));
    let Some(cgroup) = cgroup else {
        return CheckResult::unknown("its cgroup can't be seen from here")
            .with_reads([FileReading::new(path, "(not readable)")]);
    };
    let (limits, unread) = read_limits(look, &cgroup);
    let mut reads = vec![FileReading::new(path, cgroup.folder.clone())];
    let shown = |l: &CgroupLimit| {
        FileReading::new(
            &*l.path,
            format!("{} bytes, reached {} times", l.bytes, l.reached),
        )
    };
    reads.extend(limits.iter().map(shown));
    // how long its tasks waited for memory
    if let (FileValue::Text(_), read) = look.read(&format!("{}/memory.pressure", cgroup.folder)) {
        reads.push(read);
    }
    let reached: Vec<&CgroupLimit> = limits.iter().filter(|l| l.reached > 0).collect();
    let most = reached.iter().max_by_key(|l| l.reached);
    let checked = if let Some(most) = most {
        let said = format!(
            "{} was reached {} times since it was made",
            most.path, most.reached
        );
        match look.evidence.growth_of(LIMIT_REACHED_COUNTER) {
            Some(0) => CheckResult::ok(format!("{said}, and not while it was watched")),
            Some(_) => add_limit_fixes(look, CheckResult::hazard(said), &cgroup, &reached),
            // it may have been once, long ago
            None => add_limit_fixes(
                look,
                CheckResult::hazard(format!("{said}; when is not known (--duration tells)"))
                    .with_severity(Severity::Medium),
                &cgroup,
                &reached,
            ),
        }
    } else if unread {
        CheckResult::unknown("the limits of its cgroup can't be read")
    } else if limits.is_empty() {
        CheckResult::ok("its memory is not limited")
    } else {
        CheckResult::ok("its limits were not reached so far")
    };
    checked
        .with_reads(reads)
        .with_harm_counters(&[LIMIT_REACHED_COUNTER])
}

fn add_limit_fixes(
    look: &SystemView<'_>,
    checked: CheckResult,
    cgroup: &ControllerCgroup,
    reached: &[&CgroupLimit],
) -> CheckResult {
    let mut checked = checked;
    for limit in reached {
        // memory.high only slows the program down, memory.max still guards the others
        checked = if limit.path.ends_with("/memory.high") {
            checked
                .with_fix(Fix::Command(format!(
                    "echo max > {}",
                    shell_argument(&limit.path)
                )))
                .with_fix(lift_high_limit(cgroup, &limit.folder))
        } else {
            let directive = if cgroup.v2 {
                "MemoryMax="
            } else {
                "MemoryLimit="
            };
            checked.with_advice(format!(
                "cgroup: raise {} above what the program and the files it reads need, now {} bytes (systemd: \
                 {directive})",
                limit.path, limit.bytes
            ))
        };
    }
    let swap = look.file(&format!("{}/memory.swap.max", cgroup.folder));
    if swap.text().is_some_and(|text| text.trim() != "0") {
        checked = checked.with_fix(Fix::Directive("MemorySwapMax=0".to_owned()));
    }
    checked
}

/// A service lifts its own limit, and not that of a slice above it.
fn lift_high_limit(cgroup: &ControllerCgroup, folder: &str) -> Fix {
    let unit = folder.rsplit('/').next().unwrap_or_default();
    if folder == cgroup.folder || unit.ends_with(".service") {
        return Fix::Directive("MemoryHigh=infinity".to_owned());
    }
    Fix::Advice(format!(
        "systemctl set-property {} MemoryHigh=infinity",
        shell_argument(unit)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::FindingStatus;
    use crate::rules::fixture::{
        ask_rule_on, ask_rule_with, assert_hazard, evidence_of_growth, status_on,
    };

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
        let found = ask_rule_on(&CG_MEM, &files);
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
            &ask_rule_on(&CG_MEM, &files),
            "echo max > /sys/fs/cgroup/a.slice/memory.high",
            "systemctl set-property a.slice MemoryHigh=infinity",
        );
    }

    /// Check that a limit that was reached before somebody watched is none that does harm.
    #[test]
    fn long_ago() {
        let files = [V2, PROCS, (HIGH, "1048576"), (EVENTS, "high 1\nmax 0")];
        assert_eq!(ask_rule_on(&CG_MEM, &files).severity, Severity::Medium);
        let quiet = ask_rule_with(
            &CG_MEM,
            &files,
            &evidence_of_growth(LIMIT_REACHED_COUNTER, 0),
        );
        assert_eq!(quiet.status, FindingStatus::Ok);
        let now = ask_rule_with(
            &CG_MEM,
            &files,
            &evidence_of_growth(LIMIT_REACHED_COUNTER, 2),
        );
        assert_eq!(now.severity, Severity::High);
        assert_eq!(now.harm.unwrap().count, 2);
    }

    /// Check that limits that were not reached, or are none, are fine, and what can't be seen is unknown.
    #[test]
    fn other_limits() {
        let quiet = [V2, PROCS, (HIGH, "1048576"), (EVENTS, "high 0\nmax 4")];
        assert_eq!(status_on(&CG_MEM, &quiet), FindingStatus::Ok);
        assert_eq!(
            status_on(&CG_MEM, &[V2, PROCS, (HIGH, "max")]),
            FindingStatus::Ok
        );
        assert_eq!(status_on(&CG_MEM, &[V2, PROCS]), FindingStatus::Ok);
        assert_eq!(
            status_on(&CG_MEM, &[V2, PROCS, (HIGH, "1048576")]),
            FindingStatus::Unknown
        );
        assert_eq!(
            status_on(&CG_MEM, &[V2, PROCS, (HIGH, "garbage")]),
            FindingStatus::Unknown
        );
        assert_eq!(status_on(&CG_MEM, &[V2]), FindingStatus::Unknown);
        assert_eq!(status_on(&CG_MEM, &[]), FindingStatus::Unknown);
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
        let found = ask_rule_on(&CG_MEM, &files("1048576"));
        assert_eq!(found.status, FindingStatus::Hazard);
        assert!(found.fix_lasting().ends_with("(systemd: MemoryLimit=)"));
        assert_eq!(
            status_on(&CG_MEM, &files("9223372036854771712")),
            FindingStatus::Ok
        );
    }
}
