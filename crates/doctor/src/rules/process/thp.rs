//! PROC-THP: the process has transparent huge pages, or may get them.

use crate::rules::THP_ENABLED_FILE;
use crate::rules::prelude::*;

use super::common::MAPPINGS_UNREADABLE;

pub(super) const PROC_THP: AuditRule = AuditRule {
    id: "PROC-THP",
    title: "transparent huge pages in the process",
    severity: Severity::Info,
    why: "To protect, move or free a part of a huge page the kernel splits it, and khugepaged puts small pages \
          together again: each is a flush on every CPU that the process runs on.",
    risk: "Without huge pages there are more page faults and more misses of the TLB: measure both.",
    source: "kernel Documentation/admin-guide/mm/transhuge.rst; redis.io, latency and transparent huge pages; \
             github.com/systemd/systemd/pull/39085",
    causes: &[Cause::ThpCollapse, Cause::ThpSplit],
    check: RuleCheck::Process(check_proc_thp),
};

fn check_proc_thp(look: &SystemView<'_>, process: &AuditedProcess) -> CheckResult {
    // 1 also where PR_SET_THP_DISABLE leaves those that are asked for (Linux 6.18, PR_THP_DISABLE_EXCEPT_ADVISED)
    let (allowed, allowed_read) = process.status_field("THP_enabled");
    let (huge, huge_read) = process.rollup_bytes("AnonHugePages");
    let (system, system_read) = look.read(THP_ENABLED_FILE);
    let checked = match (huge, allowed.as_deref(), system.chosen_word(), &system) {
        // also where they were switched off later: huge pages that are there stay
        (Some(bytes), ..) if bytes > 0 => thp_hazard(format!("{} kB in huge pages", bytes >> 10)),
        (_, Some("0"), ..) => CheckResult::ok("switched off for this process"),
        (_, _, Some("never"), _) => CheckResult::ok("switched off for all"),
        (_, _, Some("always"), _) => thp_hazard("it may get huge pages anywhere".to_owned()),
        (_, _, Some("madvise"), _) => check_askers(process),
        (_, _, None, FileValue::Absent) => {
            CheckResult::ok("this kernel has no transparent huge pages")
        }
        _ => CheckResult::unknown("the setting can't be read"),
    };
    checked
        .with_reads([allowed_read, huge_read, system_read])
        .with_harm_counters(&["khugepaged.pages_collapsed", "thp_split_pmd"])
}

/// Whether this program asked for huge pages, where only those who ask get them.
fn check_askers(process: &AuditedProcess) -> CheckResult {
    let read =
        |shown: &str| FileReading::new(format!("{} VmFlags", process.proc_path("smaps")), shown);
    match process.count_flagged(&["hg"]) {
        Some(0) => {
            CheckResult::ok("it has not asked for huge pages").with_reads([read("none with hg")])
        }
        Some(n) => thp_hazard(format!("it asks for huge pages in {n} mappings"))
            .with_reads([read(&format!("{n} with hg"))]),
        None => CheckResult::unknown(MAPPINGS_UNREADABLE).with_reads([read("(not readable)")]),
    }
}

fn thp_hazard(said: String) -> CheckResult {
    CheckResult::hazard(said)
        .with_advice(
            "program: prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0), or whoever starts it: it is inherited, also by exec",
        )
        .with_fix(Fix::Directive("MemoryTHP=disable".to_owned()))
        .with_note("MemoryTHP= came to systemd in 2026: an older one ignores the line, and says so in its log")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::FindingStatus;
    use crate::rules::fixture::{ask_rule_on, assert_hazard, status_on};

    const ALWAYS: (&str, &str) = (THP_ENABLED_FILE, "[always] madvise never");
    const MADVISE: (&str, &str) = (THP_ENABLED_FILE, "always [madvise] never");

    /// Check that huge pages that are there, that may come, or that were asked for are each said.
    #[test]
    fn huge_pages_are_said() {
        let there = ask_rule_on(
            &PROC_THP,
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
        assert_eq!(status_on(&PROC_THP, &[ALWAYS]), FindingStatus::Hazard);
        let asked = [MADVISE, ("PID/smaps", "VmFlags: rd wr hg ")];
        assert_eq!(status_on(&PROC_THP, &asked), FindingStatus::Hazard);
    }

    /// Check that it is fine where they are off for the process or for all, or nobody asked.
    #[test]
    fn off_is_fine() {
        let off = [ALWAYS, ("PID/status", "THP_enabled:\t0")];
        assert_eq!(status_on(&PROC_THP, &off), FindingStatus::Ok);
        let on = [ALWAYS, ("PID/status", "THP_enabled:\t1")];
        assert_eq!(status_on(&PROC_THP, &on), FindingStatus::Hazard);
        assert_eq!(
            status_on(&PROC_THP, &[(THP_ENABLED_FILE, "always madvise [never]")]),
            FindingStatus::Ok
        );
        let unasked = [MADVISE, ("PID/smaps", "VmFlags: rd wr ")];
        assert_eq!(status_on(&PROC_THP, &unasked), FindingStatus::Ok);
        assert_eq!(
            status_on(&PROC_THP, &[]),
            FindingStatus::Ok,
            "a kernel without them"
        );
        assert_eq!(status_on(&PROC_THP, &[MADVISE]), FindingStatus::Unknown);
        assert_eq!(
            status_on(&PROC_THP, &[(THP_ENABLED_FILE, "garbage")]),
            FindingStatus::Unknown
        );
    }
}
