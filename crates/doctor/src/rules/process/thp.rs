//! PROC-THP: the process has transparent huge pages, or may get them.

use quell_event::Cause;

use crate::finding::{Read, Severity};
use crate::fix::Fix;
use crate::look::{Look, Value};
use crate::process::Process;
use crate::rule::{Check, Checked, Rule};
use crate::rules::THP_ENABLED;

use super::common::UNREADABLE;

pub(super) const RULE: Rule = Rule {
    id: "PROC-THP",
    title: "transparent huge pages in the process",
    severity: Severity::Info,
    why: "To protect, move or free a part of a huge page the kernel splits it, and khugepaged puts small pages \
          together again: each is a flush on every CPU that the process runs on.",
    risk: "Without huge pages there are more page faults and more misses of the TLB: measure both.",
    source: "kernel Documentation/admin-guide/mm/transhuge.rst; redis.io, latency and transparent huge pages; \
             github.com/systemd/systemd/pull/39085",
    causes: &[Cause::ThpCollapse, Cause::ThpSplit],
    check: Check::Process(check),
};

fn check(look: &Look<'_>, process: &Process) -> Checked {
    // 1 also where PR_SET_THP_DISABLE leaves those that are asked for (Linux 6.18, PR_THP_DISABLE_EXCEPT_ADVISED)
    let (allowed, allowed_read) = process.status("THP_enabled");
    let (huge, huge_read) = process.rollup("AnonHugePages");
    let (system, system_read) = look.read(THP_ENABLED);
    let checked = match (huge, allowed.as_deref(), system.chosen(), &system) {
        // also where they were switched off later: what is there stays
        (Some(bytes), ..) if bytes > 0 => hazard(format!("{} kB in huge pages", bytes >> 10)),
        (_, Some("0"), ..) => Checked::ok("switched off for this process"),
        (_, _, Some("never"), _) => Checked::ok("switched off for all"),
        (_, _, Some("always"), _) => hazard("it may get huge pages anywhere".to_owned()),
        (_, _, Some("madvise"), _) => asked(process),
        (_, _, None, Value::Absent) => Checked::ok("this kernel has no transparent huge pages"),
        _ => Checked::unknown("the setting can't be read"),
    };
    checked
        .read([allowed_read, huge_read, system_read])
        .grows(&["khugepaged.pages_collapsed", "thp_split_pmd"])
}

/// Where programs get what they ask for: whether this one did.
fn asked(process: &Process) -> Checked {
    let read = |shown: &str| Read::new(format!("{} VmFlags", process.path("smaps")), shown);
    match process.flagged(&["hg"]) {
        Some(0) => Checked::ok("it has not asked for huge pages").read([read("none with hg")]),
        Some(n) => hazard(format!("it asks for huge pages in {n} mappings"))
            .read([read(&format!("{n} with hg"))]),
        None => Checked::unknown(UNREADABLE).read([read("(not readable)")]),
    }
}

fn hazard(said: String) -> Checked {
    Checked::hazard(said)
        .fix(Fix::Advice(
            "program: prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0), or whoever starts it: it is inherited, also by exec"
                .to_owned(),
        ))
        .fix(Fix::Directive("MemoryTHP=disable".to_owned()))
        .note("MemoryTHP= came to systemd in 2026: an older one ignores the line, and says so in its log")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Status;
    use crate::rules::fixture::{ask, assert_hazard, status};

    const ALWAYS: (&str, &str) = (THP_ENABLED, "[always] madvise never");
    const MADVISE: (&str, &str) = (THP_ENABLED, "always [madvise] never");

    /// Check that huge pages that are there, that may come, or that were asked for are each said.
    #[test]
    fn huge_pages_are_said() {
        let there = ask(
            &RULE,
            &[("PID/smaps_rollup", "AnonHugePages:   4096 kB"), MADVISE],
        );
        assert_hazard(
            &there,
            "",
            "program: prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0), or whoever starts it: it is inherited, also by exec\n\
             systemd service: MemoryTHP=disable",
        );
        assert_eq!(there.said, "4096 kB in huge pages");
        assert_eq!(there.severity, Severity::Info);
        assert_eq!(status(&RULE, &[ALWAYS]), Status::Hazard);
        let asked = [MADVISE, ("PID/smaps", "VmFlags: rd wr hg ")];
        assert_eq!(status(&RULE, &asked), Status::Hazard);
    }

    /// Check that it is fine where they are off for the process or for all, or nobody asked.
    #[test]
    fn off_is_fine() {
        let off = [ALWAYS, ("PID/status", "THP_enabled:\t0")];
        assert_eq!(status(&RULE, &off), Status::Ok);
        let on = [ALWAYS, ("PID/status", "THP_enabled:\t1")];
        assert_eq!(status(&RULE, &on), Status::Hazard);
        assert_eq!(
            status(&RULE, &[(THP_ENABLED, "always madvise [never]")]),
            Status::Ok
        );
        let unasked = [MADVISE, ("PID/smaps", "VmFlags: rd wr ")];
        assert_eq!(status(&RULE, &unasked), Status::Ok);
        assert_eq!(status(&RULE, &[]), Status::Ok, "a kernel without them");
        assert_eq!(status(&RULE, &[MADVISE]), Status::Unknown);
        assert_eq!(status(&RULE, &[(THP_ENABLED, "garbage")]), Status::Unknown);
    }
}
