//! SYS-COMPACT: memory is compacted before anybody asks for it.

use crate::rules::prelude::*;

const COMPACTION_FILE: &str = "/proc/sys/vm/compaction_proactiveness";

pub(super) const SYS_COMPACT: AuditRule = AuditRule {
    id: "SYS-COMPACT",
    title: "proactive compaction",
    severity: Severity::High,
    why: "kcompactd moves pages of running programs to make free blocks: each move is a shootdown, and who \
          touches the page meanwhile waits.",
    risk: "Huge pages are harder to get on a machine that has run for long.",
    source: "kernel Documentation/admin-guide/sysctl/vm.rst, compaction_proactiveness; rigtorp.se/virtual-memory",
    causes: &[Cause::Compaction],
    check: RuleCheck::System(check_sys_compact),
};

fn check_sys_compact(look: &SystemView<'_>) -> CheckResult {
    let (value, read) = look.read(COMPACTION_FILE);
    let checked = match (value.number(), &value) {
        (Some(0), _) => CheckResult::ok("switched off"),
        (Some(n), _) => CheckResult::hazard(format!("on, with {n} of 100"))
            .with_fix(Fix::set_sysctl("vm.compaction_proactiveness", "0")),
        (None, FileValue::Absent) => CheckResult::ok("this kernel has none (before 5.9)"),
        (None, _) => CheckResult::unknown("the setting can't be read"),
    };
    // compact_migrate_scanned has the direct compaction of those who ask for memory too (mm/compaction.c)
    checked
        .with_reads([read])
        .with_harm_counters(&["compact_daemon_migrate_scanned"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::FindingStatus;
    use crate::rules::fixture::{
        ask_rule_on, ask_rule_with, assert_hazard, evidence_of_growth, status_on,
    };

    /// Check that the kernel's default is a hazard, and 0 is none.
    #[test]
    fn the_default_is_a_hazard() {
        assert_hazard(
            &ask_rule_on(&SYS_COMPACT, &[(COMPACTION_FILE, "20")]),
            "sysctl -w vm.compaction_proactiveness=0",
            "sysctl.d: vm.compaction_proactiveness = 0",
        );
        assert_eq!(
            status_on(&SYS_COMPACT, &[(COMPACTION_FILE, "0")]),
            FindingStatus::Ok
        );
        assert_eq!(status_on(&SYS_COMPACT, &[]), FindingStatus::Ok);
        assert_eq!(
            status_on(&SYS_COMPACT, &[(COMPACTION_FILE, "x")]),
            FindingStatus::Unknown
        );
    }

    /// Check that a file that sets it otherwise at each start is told with the fix.
    #[test]
    fn a_file_that_sets_it_again() {
        let file = (
            "/usr/lib/sysctl.d/99-other.conf",
            "vm.compaction_proactiveness = 20",
        );
        let found = ask_rule_on(&SYS_COMPACT, &[(COMPACTION_FILE, "20"), file]);
        assert!(
            found.notes[0].starts_with("/usr/lib/sysctl.d/99-other.conf sets"),
            "{:?}",
            found.notes
        );
        assert!(
            ask_rule_on(&SYS_COMPACT, &[(COMPACTION_FILE, "20")])
                .notes
                .is_empty()
        );
    }

    /// Check that pages that kcompactd moved are its harm, and what others moved is none.
    #[test]
    fn moves_are_harm() {
        let direct = evidence_of_growth("compact_migrate_scanned", 7);
        assert!(
            ask_rule_with(&SYS_COMPACT, &[(COMPACTION_FILE, "20")], &direct)
                .harm
                .is_none()
        );
        let evidence = evidence_of_growth("compact_daemon_migrate_scanned", 7);
        let found = ask_rule_with(&SYS_COMPACT, &[(COMPACTION_FILE, "20")], &evidence);
        assert_eq!(
            found.harm.unwrap().description,
            "compact_daemon_migrate_scanned +7 in 1.00 s"
        );
    }
}
