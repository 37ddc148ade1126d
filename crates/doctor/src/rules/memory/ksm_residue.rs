//! SYS-KSM-RESIDUE: merging was stopped, and what it merged stays so.

use crate::rules::prelude::*;

const KSM_RUN_FILE: &str = "/sys/kernel/mm/ksm/run";
/// Merged pages, their other users, and those that became the zero page (from 6.6).
const MERGED_PAGES_FILES: [&str; 3] = [
    "/sys/kernel/mm/ksm/pages_shared",
    "/sys/kernel/mm/ksm/pages_sharing",
    "/sys/kernel/mm/ksm/ksm_zero_pages",
];

pub(super) const SYS_KSM_RESIDUE: AuditRule = AuditRule {
    id: "SYS-KSM-RESIDUE",
    title: "pages stay merged after same-page merging was stopped",
    severity: Severity::Medium,
    why: "0 stops ksmd and leaves what it merged: the next write to each such page is a fault that copies it, \
          with a shootdown.",
    risk: "To take pages apart needs memory for each of them, at once.",
    source: "kernel Documentation/admin-guide/mm/ksm.rst, run",
    // the copies are made in the fault of the writer: their cause is cow, and most of that is another's
    causes: &[],
    check: RuleCheck::System(check_sys_ksm_residue),
};

fn check_sys_ksm_residue(look: &SystemView<'_>) -> CheckResult {
    let (run, read) = look.read(KSM_RUN_FILE);
    let counts = MERGED_PAGES_FILES.map(|path| look.read(path));
    let merged = counts.iter().filter_map(|(value, _)| value.number());
    // a merged page with one user left is still write-protected, so any of the counts will do
    let most = merged.max();
    let unread = counts.iter().any(|(value, _)| match value {
        FileValue::Text(_) => value.number().is_none(),
        FileValue::Refused(_) => true,
        FileValue::Absent => false,
    });
    let checked = match (run.number(), &run) {
        (Some(0), _) => match most {
            Some(n) if n > 0 => {
                CheckResult::hazard(format!("stopped, with {n} pages still merged"))
                    .with_fix(Fix::set_file(KSM_RUN_FILE, "2"))
            }
            _ if unread => CheckResult::unknown("how many pages are merged can't be read"),
            None => CheckResult::unknown("this kernel does not say how many pages are merged"),
            Some(_) => CheckResult::ok("stopped, and nothing is merged"),
        },
        (Some(1), _) => CheckResult::ok("merging runs, which SYS-KSM speaks of"),
        (Some(2), _) => CheckResult::ok("stopped, and merged pages are taken apart"),
        (None, FileValue::Absent) => CheckResult::ok("this kernel has no same-page merging"),
        _ => CheckResult::unknown("the setting can't be read"),
    };
    let reads = counts.into_iter().map(|(_, read)| read);
    checked
        .with_reads([read])
        .with_reads(reads)
        .with_harm_counters(&["cow_ksm"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::FindingStatus;
    use crate::rules::fixture::{ask_rule_on, assert_hazard, status_on};

    /// Check that merged pages of a stopped ksmd are a hazard, whichever count tells, and none are fine.
    #[test]
    fn what_stays_is_a_hazard() {
        assert_hazard(
            &ask_rule_on(
                &SYS_KSM_RESIDUE,
                &[
                    (KSM_RUN_FILE, "0"),
                    (MERGED_PAGES_FILES[0], "3"),
                    (MERGED_PAGES_FILES[1], "127"),
                ],
            ),
            "echo 2 > /sys/kernel/mm/ksm/run",
            "tmpfiles.d: w /sys/kernel/mm/ksm/run - - - - 2",
        );
        let alone = [
            (KSM_RUN_FILE, "0"),
            (MERGED_PAGES_FILES[0], "1"),
            (MERGED_PAGES_FILES[1], "0"),
        ];
        assert_eq!(status_on(&SYS_KSM_RESIDUE, &alone), FindingStatus::Hazard);
        let none = [
            (KSM_RUN_FILE, "0"),
            (MERGED_PAGES_FILES[0], "0"),
            (MERGED_PAGES_FILES[1], "0"),
        ];
        assert_eq!(status_on(&SYS_KSM_RESIDUE, &none), FindingStatus::Ok);
    }

    /// Check that a ksmd that runs is another rule's, and what can't be read is unknown.
    #[test]
    fn the_rest_is_none() {
        assert_eq!(
            status_on(
                &SYS_KSM_RESIDUE,
                &[(KSM_RUN_FILE, "1"), (MERGED_PAGES_FILES[0], "3")]
            ),
            FindingStatus::Ok
        );
        assert_eq!(
            status_on(
                &SYS_KSM_RESIDUE,
                &[(KSM_RUN_FILE, "2"), (MERGED_PAGES_FILES[0], "3")]
            ),
            FindingStatus::Ok
        );
        assert_eq!(status_on(&SYS_KSM_RESIDUE, &[]), FindingStatus::Ok);
        assert_eq!(
            status_on(&SYS_KSM_RESIDUE, &[(KSM_RUN_FILE, "x")]),
            FindingStatus::Unknown
        );
        assert_eq!(
            status_on(&SYS_KSM_RESIDUE, &[(KSM_RUN_FILE, "0")]),
            FindingStatus::Unknown
        );
        assert_eq!(
            status_on(
                &SYS_KSM_RESIDUE,
                &[(KSM_RUN_FILE, "0"), (MERGED_PAGES_FILES[0], "x")]
            ),
            FindingStatus::Unknown
        );
    }
}
