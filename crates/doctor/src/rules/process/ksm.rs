//! PROC-KSM: the process lets ksmd merge its pages.

use crate::rules::prelude::*;

use super::common::MAPPINGS_UNREADABLE;

const KSM_RUN_FILE: &str = "/sys/kernel/mm/ksm/run";

pub(super) const PROC_KSM: AuditRule = AuditRule {
    id: "PROC-KSM",
    title: "its pages may be merged with others",
    severity: Severity::High,
    why: "ksmd write-protects and merges pages of who opted in, a shootdown for each, and the next write to a \
          merged page is a fault that copies it.",
    risk: "What was merged is copied, so that it takes more memory.",
    source: "rigtorp.se/virtual-memory; kernel Documentation/admin-guide/mm/ksm.rst; man PR_SET_MEMORY_MERGE(2const)",
    causes: &[Cause::Ksm],
    check: RuleCheck::Process(check_proc_ksm),
};

fn check_proc_ksm(look: &SystemView<'_>, process: &AuditedProcess) -> CheckResult {
    // `ksm_merging_pages 0` and `ksm_merge_any: no` (fs/proc/base.c, proc_pid_ksm_stat). Older kernels have fewer lines.
    let stat = process.file("ksm_stat");
    let any = stat.field("ksm_merge_any");
    let mergeable = stat.field("ksm_mergeable");
    let merged = stat.field("ksm_merging_pages");
    let merged = merged.and_then(|n| n.parse::<u64>().ok());
    let marked = process.count_flagged(&["mg"]);
    let run = look.file(KSM_RUN_FILE);
    let checked = if any == Some("yes") || merged > Some(0) || marked > Some(0) {
        let hazard = CheckResult::hazard(format!(
            "{} pages are merged, {} mappings are marked for it, all of them by prctl: {}",
            merged.map_or("an unknown number of".to_owned(), |n| n.to_string()),
            marked.map_or("an unknown number of".to_owned(), |n| n.to_string()),
            any.unwrap_or("not known"),
        ))
        .with_advice(
            "program: prctl(PR_SET_MEMORY_MERGE, 0, 0, 0, 0), or madvise(MADV_UNMERGEABLE) where it asked for \
             merging itself",
        )
        .with_fix(Fix::Directive("MemoryKSM=no".to_owned()));
        match run.number() {
            Some(0 | 2) if merged == Some(0) => hazard
                .with_severity(Severity::Low)
                .with_note("ksmd does not run now: nothing is merged until somebody starts it"),
            _ => hazard,
        }
    } else if marked == Some(0) || (any, mergeable) == (Some("no"), Some("no")) {
        CheckResult::ok("none of its memory is to be merged")
    } else if run == FileValue::Absent {
        CheckResult::ok("this kernel has no same-page merging")
    } else {
        CheckResult::unknown(MAPPINGS_UNREADABLE)
    };
    let shown = |n: Option<&str>| n.unwrap_or("(not readable)").to_owned();
    let count = marked.map(|n| format!("{n} with mg"));
    let counted = merged.map(|n| n.to_string());
    let merging = format!("{} ksm_merging_pages", process.proc_path("ksm_stat"));
    checked
        .with_reads([
            FileReading::new(
                format!("{} ksm_merge_any", process.proc_path("ksm_stat")),
                shown(any),
            ),
            FileReading::new(merging, shown(counted.as_deref())),
            FileReading::new(
                format!("{} VmFlags", process.proc_path("smaps")),
                shown(count.as_deref()),
            ),
        ])
        .with_harm_counters(&["cow_ksm"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::FindingStatus;
    use crate::rules::fixture::{ask_rule_on, assert_hazard, status_on};

    const NONE: &str =
        "ksm_rmap_items 0\nksm_merging_pages 0\nksm_merge_any: no\nksm_mergeable: no";
    const MARKED: &str = "VmFlags: rd wr mr mw me ac mg ";

    /// Check that merged pages, a process that opted in, and a marked mapping are each a hazard.
    #[test]
    fn opted_in_is_a_hazard() {
        let any = NONE.replace("any: no", "any: yes");
        let merged = NONE.replace("pages 0", "pages 7");
        let found = ask_rule_on(
            &PROC_KSM,
            &[("PID/ksm_stat", &merged), ("PID/smaps", "VmFlags: rd ")],
        );
        assert_hazard(
            &found,
            "",
            "program: prctl(PR_SET_MEMORY_MERGE, 0, 0, 0, 0), or madvise(MADV_UNMERGEABLE) where it asked for merging \
             itself\n\
             systemd service: MemoryKSM=no",
        );
        assert_eq!(found.severity, Severity::High);
        assert_eq!(
            status_on(&PROC_KSM, &[("PID/ksm_stat", &any)]),
            FindingStatus::Hazard
        );
        assert_eq!(
            status_on(&PROC_KSM, &[("PID/smaps", MARKED)]),
            FindingStatus::Hazard
        );
    }

    /// Check that opting in while ksmd stands still, with nothing merged, is a small matter.
    #[test]
    fn ksmd_stands_still() {
        let files = [
            ("PID/ksm_stat", NONE),
            ("PID/smaps", MARKED),
            (KSM_RUN_FILE, "0"),
        ];
        assert_eq!(ask_rule_on(&PROC_KSM, &files).severity, Severity::Low);
        let files = [
            ("PID/ksm_stat", NONE),
            ("PID/smaps", MARKED),
            (KSM_RUN_FILE, "1"),
        ];
        assert_eq!(ask_rule_on(&PROC_KSM, &files).severity, Severity::High);
    }

    /// Check that nothing marked is fine, as is a kernel without it, and that what can't be read is unknown.
    #[test]
    fn nothing_marked() {
        assert_eq!(
            status_on(&PROC_KSM, &[("PID/ksm_stat", NONE), (KSM_RUN_FILE, "1")]),
            FindingStatus::Ok
        );
        assert_eq!(
            status_on(
                &PROC_KSM,
                &[("PID/smaps", "VmFlags: rd "), (KSM_RUN_FILE, "1")]
            ),
            FindingStatus::Ok
        );
        assert_eq!(
            status_on(&PROC_KSM, &[]),
            FindingStatus::Ok,
            "no KSM in this kernel"
        );
        assert_eq!(
            status_on(&PROC_KSM, &[(KSM_RUN_FILE, "1")]),
            FindingStatus::Unknown
        );
        let old = [("PID/ksm_stat", "ksm_rmap_items 0"), (KSM_RUN_FILE, "1")];
        assert_eq!(status_on(&PROC_KSM, &old), FindingStatus::Unknown);
    }
}
