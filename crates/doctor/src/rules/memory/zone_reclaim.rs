//! SYS-ZRECLAIM: a node's memory is reclaimed before another node's is used.

use crate::rules::prelude::*;

const ZONE_RECLAIM_FILE: &str = "/proc/sys/vm/zone_reclaim_mode";

pub(super) const SYS_ZRECLAIM: AuditRule = AuditRule {
    id: "SYS-ZRECLAIM",
    title: "reclaim before memory of another node",
    severity: Severity::Medium,
    why: "Who allocates when the near node is short reclaims pages there first, in its own time, though other \
          nodes have free memory.",
    risk: "More memory is allocated on far nodes.",
    source: "kernel Documentation/admin-guide/sysctl/vm.rst, zone_reclaim_mode; mm/vmscan.c node_reclaim",
    // only bit 2 (swap) lets it unmap pages, so that most of reclaim's shootdowns are not its own
    causes: &[],
    check: RuleCheck::System(check_sys_zreclaim),
};

fn check_sys_zreclaim(look: &SystemView<'_>) -> CheckResult {
    let (value, read) = look.read(ZONE_RECLAIM_FILE);
    let checked = match (value.number(), &value) {
        (Some(0), _) => CheckResult::ok("switched off"),
        (Some(mode), _) => CheckResult::hazard(format!("on (mode {mode})"))
            .with_fix(Fix::set_sysctl("vm.zone_reclaim_mode", "0")),
        (None, FileValue::Absent) => CheckResult::ok("this kernel has none (no NUMA)"),
        (None, _) => CheckResult::unknown("the setting can't be read"),
    };
    checked
        .with_reads([read])
        .with_harm_counters(&["zone_reclaim_success", "zone_reclaim_failed"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::FindingStatus;
    use crate::rules::fixture::{ask_rule_on, assert_hazard, status_on};

    /// Check that any mode is a hazard, and 0 is none.
    #[test]
    fn on_is_a_hazard() {
        for mode in ["1", "2", "7"] {
            assert_hazard(
                &ask_rule_on(&SYS_ZRECLAIM, &[(ZONE_RECLAIM_FILE, mode)]),
                "sysctl -w vm.zone_reclaim_mode=0",
                "sysctl.d: vm.zone_reclaim_mode = 0",
            );
        }
        assert_eq!(
            status_on(&SYS_ZRECLAIM, &[(ZONE_RECLAIM_FILE, "0")]),
            FindingStatus::Ok
        );
        assert_eq!(status_on(&SYS_ZRECLAIM, &[]), FindingStatus::Ok);
        assert_eq!(
            status_on(&SYS_ZRECLAIM, &[(ZONE_RECLAIM_FILE, "")]),
            FindingStatus::Unknown
        );
    }
}
