//! SYS-THP-DEFRAG: a page fault makes room for a huge page.

use crate::rules::prelude::*;

use super::common;

const THP_DEFRAG_FILE: &str = "/sys/kernel/mm/transparent_hugepage/defrag";

pub(super) const SYS_THP_DEFRAG: AuditRule = AuditRule {
    id: "SYS-THP-DEFRAG",
    title: "page faults make room for huge pages",
    severity: Severity::High,
    why: "Where no free block is at hand the fault itself reclaims and moves pages until there is one: the \
          program waits, and each page that is moved is a shootdown.",
    risk: "Huge pages are given only where a free block is at hand; 'defer' has kcompactd make some meanwhile, \
           which moves pages too.",
    source: "kernel Documentation/admin-guide/mm/transhuge.rst, defrag; mm/huge_memory.c vma_thp_gfp_mask; \
             rigtorp.se/virtual-memory",
    causes: &[Cause::Compaction],
    check: RuleCheck::System(check_sys_thp_defrag),
};

fn check_sys_thp_defrag(look: &SystemView<'_>) -> CheckResult {
    let (value, read) = look.read(THP_DEFRAG_FILE);
    let none_given = common::is_thp_given(look) == Some(false);
    let checked = match (value.chosen_word(), &value) {
        (Some("always"), _) if none_given => {
            defrag_hazard("every fault for a huge page may wait; none is given for now")
                .with_severity(Severity::Low)
        }
        (Some("always"), _) => defrag_hazard("every fault for a huge page may wait"),
        (Some("madvise" | "defer+madvise"), _) if none_given => {
            CheckResult::ok("no program is given huge pages")
        }
        (Some("madvise" | "defer+madvise"), _) => check_askers(look),
        (Some(other @ ("defer" | "never")), _) => CheckResult::ok(format!("set to {other}")),
        (None, FileValue::Absent) => CheckResult::ok("this kernel has no transparent huge pages"),
        _ => CheckResult::unknown("the setting can't be read"),
    };
    let checked = if look.is_running("mongod") {
        checked.with_note("mongod runs here: version 8 and later wants 'defer+madvise'")
    } else {
        checked
    };
    checked
        .with_reads([read])
        .with_harm_counters(&["compact_stall"])
}

fn defrag_hazard(said: impl Into<String>) -> CheckResult {
    CheckResult::hazard(said).with_fix(Fix::set_file(THP_DEFRAG_FILE, "never"))
}

/// Where those wait that asked for huge pages by madvise(2).
fn check_askers(look: &SystemView<'_>) -> CheckResult {
    let Some(process) = look.process() else {
        return CheckResult::ok(
            "only programs that ask for huge pages wait for them (--pid tells of one)",
        );
    };
    let path = format!("{} VmFlags hg", process.proc_path("smaps"));
    match process.count_flagged(&["hg"]) {
        Some(0) => CheckResult::ok("the process asks for no huge pages")
            .with_reads([FileReading::new(path, "0")]),
        Some(n) => {
            defrag_hazard("those who ask for huge pages wait for them, and the process asks")
                .with_reads([FileReading::new(path, n.to_string())])
        }
        None => CheckResult::unknown("whether the process asks for huge pages can't be read")
            .with_reads([FileReading::new(path, "(not readable)")]),
    }
}

#[cfg(test)]
mod tests {
    use super::common::THP_ENABLED_FILE;
    use super::*;
    use crate::finding::FindingStatus;
    use crate::rules::fixture::{ask_rule_on, assert_hazard, status_on};

    const ON: (&str, &str) = (THP_ENABLED_FILE, "always [madvise] never");
    const OFF: (&str, &str) = (THP_ENABLED_FILE, "always madvise [never]");
    const ALWAYS: (&str, &str) = (
        THP_DEFRAG_FILE,
        "[always] defer defer+madvise madvise never",
    );
    const MADVISE: (&str, &str) = (
        THP_DEFRAG_FILE,
        "always defer defer+madvise [madvise] never",
    );

    /// Check that a wait in every fault is a hazard, a lesser one where none is given huge pages.
    #[test]
    fn always_is_a_hazard() {
        let found = ask_rule_on(&SYS_THP_DEFRAG, &[ON, ALWAYS]);
        assert_hazard(
            &found,
            "echo never > /sys/kernel/mm/transparent_hugepage/defrag",
            "tmpfiles.d: w /sys/kernel/mm/transparent_hugepage/defrag - - - - never",
        );
        assert_eq!(found.severity, Severity::High);
        assert_eq!(
            ask_rule_on(&SYS_THP_DEFRAG, &[OFF, ALWAYS]).severity,
            Severity::Low
        );
        let defer = (
            THP_DEFRAG_FILE,
            "always [defer] defer+madvise madvise never",
        );
        assert_eq!(status_on(&SYS_THP_DEFRAG, &[ON, defer]), FindingStatus::Ok);
        assert_eq!(status_on(&SYS_THP_DEFRAG, &[]), FindingStatus::Ok);
        assert_eq!(
            status_on(&SYS_THP_DEFRAG, &[ON, (THP_DEFRAG_FILE, "[x]")]),
            FindingStatus::Unknown
        );
    }

    /// Check that `madvise` is a hazard for a process that asks, and for no other.
    #[test]
    fn asking_is_a_hazard() {
        assert_eq!(
            status_on(&SYS_THP_DEFRAG, &[ON, MADVISE]),
            FindingStatus::Ok
        );
        let rule = AuditRule {
            check: RuleCheck::Process(|look, _| check_sys_thp_defrag(look)),
            ..SYS_THP_DEFRAG
        };
        let of = |top, smaps| status_on(&rule, &[top, MADVISE, ("PID/smaps", smaps)]);
        assert_eq!(of(ON, "VmFlags: rd wr hg ac"), FindingStatus::Hazard);
        assert_eq!(of(OFF, "VmFlags: rd wr hg ac"), FindingStatus::Ok);
        assert_eq!(of(ON, "VmFlags: rd wr ac"), FindingStatus::Ok);
        assert_eq!(status_on(&rule, &[ON, MADVISE]), FindingStatus::Unknown);
    }
}
