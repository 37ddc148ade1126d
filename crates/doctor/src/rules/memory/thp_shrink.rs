//! SYS-THP-SHRINK: huge pages that are mostly empty are split.

use crate::rules::prelude::*;

const SHRINK_UNDERUSED_FILE: &str = "/sys/kernel/mm/transparent_hugepage/shrink_underused";
const MAX_PTES_NONE_FILE: &str = "/sys/kernel/mm/transparent_hugepage/khugepaged/max_ptes_none";
/// Small pages of 4 KiB in a huge one of 2 MiB.
const PAGES_PER_HUGE_PAGE: i64 = 512;

pub(super) const SYS_THP_SHRINK: AuditRule = AuditRule {
    id: "SYS-THP-SHRINK",
    title: "underused huge pages are split",
    severity: Severity::Low,
    why: "When memory runs short the kernel looks for huge pages that are mostly zeros, unmaps and splits them: \
          a shootdown for each.",
    risk: "Zeros inside of huge pages stay allocated.",
    source: "kernel Documentation/admin-guide/mm/transhuge.rst, shrink_underused; mm/huge_memory.c thp_underused",
    causes: &[Cause::ThpSplit],
    check: RuleCheck::System(check_sys_thp_shrink),
};

fn check_sys_thp_shrink(look: &SystemView<'_>) -> CheckResult {
    let (shrink, read) = look.read(SHRINK_UNDERUSED_FILE);
    let (max_none, second) = look.read(MAX_PTES_NONE_FILE);
    let checked = match (shrink.number(), &shrink) {
        (Some(0), _) => CheckResult::ok("switched off"),
        (Some(1), _) => match max_none.number() {
            // with the default of 511 of 512 no page is underused: the table's condition alone is not enough
            Some(n) if n >= PAGES_PER_HUGE_PAGE - 1 => CheckResult::ok(format!(
                "on, but with max_ptes_none of {n} no page counts as underused"
            )),
            Some(n) => CheckResult::hazard(format!(
                "on, for pages of which more than {n} parts are zeros"
            ))
            .with_fix(Fix::set_file(SHRINK_UNDERUSED_FILE, "0")),
            None => CheckResult::unknown("on, but what counts as underused can't be read"),
        },
        (None, FileValue::Absent) => CheckResult::ok("this kernel has none (before 6.12)"),
        _ => CheckResult::unknown("the setting can't be read"),
    };
    checked
        .with_reads([read, second])
        .with_harm_counters(&["thp_underused_split_page"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::FindingStatus;
    use crate::rules::fixture::{ask_rule_on, assert_hazard, status_on};

    /// Check that it is a hazard only where some page can count as underused.
    #[test]
    fn splitting_is_a_hazard() {
        assert_hazard(
            &ask_rule_on(
                &SYS_THP_SHRINK,
                &[(SHRINK_UNDERUSED_FILE, "1"), (MAX_PTES_NONE_FILE, "409")],
            ),
            "echo 0 > /sys/kernel/mm/transparent_hugepage/shrink_underused",
            "tmpfiles.d: w /sys/kernel/mm/transparent_hugepage/shrink_underused - - - - 0",
        );
        let default = [(SHRINK_UNDERUSED_FILE, "1"), (MAX_PTES_NONE_FILE, "511")];
        assert_eq!(status_on(&SYS_THP_SHRINK, &default), FindingStatus::Ok);
        assert_eq!(
            status_on(
                &SYS_THP_SHRINK,
                &[(SHRINK_UNDERUSED_FILE, "0"), (MAX_PTES_NONE_FILE, "409")]
            ),
            FindingStatus::Ok
        );
    }

    /// Check that older kernels are fine, and what can't be read is unknown.
    #[test]
    fn what_is_missing() {
        assert_eq!(status_on(&SYS_THP_SHRINK, &[]), FindingStatus::Ok);
        assert_eq!(
            status_on(&SYS_THP_SHRINK, &[(SHRINK_UNDERUSED_FILE, "1")]),
            FindingStatus::Unknown
        );
        assert_eq!(
            status_on(
                &SYS_THP_SHRINK,
                &[(SHRINK_UNDERUSED_FILE, "x"), (MAX_PTES_NONE_FILE, "409")]
            ),
            FindingStatus::Unknown
        );
    }
}
