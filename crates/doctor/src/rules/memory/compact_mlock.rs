//! SYS-COMPACT-MLOCK: compaction moves locked pages too.

use crate::rules::prelude::*;

use super::common;

const UNEVICTABLE_FILE: &str = "/proc/sys/vm/compact_unevictable_allowed";

pub(super) const SYS_COMPACT_MLOCK: AuditRule = AuditRule {
    id: "SYS-COMPACT-MLOCK",
    title: "locked memory is compacted",
    severity: Severity::High,
    why: "mlock(2) keeps pages in memory, not in their place: compaction unmaps and moves them, a shootdown, and \
          who touches one meanwhile takes a fault and waits.",
    risk: "Huge pages are harder to get where much memory is locked.",
    source: "kernel Documentation/admin-guide/sysctl/vm.rst, compact_unevictable_allowed",
    causes: &[Cause::Compaction],
    check: RuleCheck::System(check_sys_compact_mlock),
};

fn check_sys_compact_mlock(look: &SystemView<'_>) -> CheckResult {
    let (value, read) = look.read(UNEVICTABLE_FILE);
    let (locked, locked_read) = common::read_vmstat(look, "nr_mlock");
    let now = locked.map_or(String::new(), |n| format!("; {n} are locked now"));
    let checked = match (value.number(), &value) {
        (Some(0), _) => CheckResult::ok("locked pages stay where they are"),
        (Some(1), _) => CheckResult::hazard(format!("locked pages may be moved{now}"))
            .with_fix(Fix::set_sysctl("vm.compact_unevictable_allowed", "0")),
        (None, FileValue::Absent) => CheckResult::ok("this kernel has no compaction"),
        _ => CheckResult::unknown("the setting can't be read"),
    };
    checked
        .with_reads([read, locked_read])
        .with_harm_counters(&["compact_migrate_scanned", "compact_isolated"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::FindingStatus;
    use crate::rules::fixture::{ask_rule_on, assert_hazard, status_on};

    /// Check that the kernel's default is a hazard, and 0 is none.
    #[test]
    fn the_default_is_a_hazard() {
        let found = ask_rule_on(
            &SYS_COMPACT_MLOCK,
            &[(UNEVICTABLE_FILE, "1"), ("/proc/vmstat", "nr_mlock 12")],
        );
        assert_hazard(
            &found,
            "sysctl -w vm.compact_unevictable_allowed=0",
            "sysctl.d: vm.compact_unevictable_allowed = 0",
        );
        assert_eq!(found.said, "locked pages may be moved; 12 are locked now");
        assert_eq!(
            status_on(&SYS_COMPACT_MLOCK, &[(UNEVICTABLE_FILE, "0")]),
            FindingStatus::Ok
        );
        assert_eq!(status_on(&SYS_COMPACT_MLOCK, &[]), FindingStatus::Ok);
        assert_eq!(
            status_on(&SYS_COMPACT_MLOCK, &[(UNEVICTABLE_FILE, "x")]),
            FindingStatus::Unknown
        );
    }
}
