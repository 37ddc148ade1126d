//! SYS-TIMER: timers of other CPUs.

use crate::rules::prelude::*;

const TIMER_MIGRATION_FILE: &str = "/proc/sys/kernel/timer_migration";

pub(super) const SYS_TIMER: AuditRule = AuditRule {
    id: "SYS-TIMER",
    title: "timers move between CPUs",
    severity: Severity::Low,
    why: "Timers of a CPU that goes idle are run by one that is busy, and a hot thread keeps its CPU busy all \
          the time.",
    risk: "Idle CPUs wake up for their own timers: more power.",
    source: "tuned profiles realtime and cpu-partitioning; kernel kernel/time/timer.c and timer_migration.c",
    causes: &[],
    check: RuleCheck::System(check_sys_timer),
};

fn check_sys_timer(look: &SystemView<'_>) -> CheckResult {
    let (value, read) = look.read(TIMER_MIGRATION_FILE);
    let checked = match (value.number(), &value) {
        (Some(0), _) => CheckResult::ok("timers stay where they were set"),
        (Some(1), _) => CheckResult::hazard("timers move to CPUs that are busy")
            .with_fix(Fix::set_sysctl("kernel.timer_migration", "0")),
        (None, FileValue::Absent) => CheckResult::ok("this kernel moves no timers"),
        _ => CheckResult::unknown("the setting can't be read"),
    };
    checked.with_reads([read])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::FindingStatus;
    use crate::rules::fixture::{ask_rule_on, assert_hazard, status_on};

    /// Check that the kernel's default is a hazard, and 0 is none.
    #[test]
    fn the_default_is_a_hazard() {
        assert_hazard(
            &ask_rule_on(&SYS_TIMER, &[(TIMER_MIGRATION_FILE, "1")]),
            "sysctl -w kernel.timer_migration=0",
            "sysctl.d: kernel.timer_migration = 0",
        );
        assert_eq!(
            status_on(&SYS_TIMER, &[(TIMER_MIGRATION_FILE, "0")]),
            FindingStatus::Ok
        );
        assert_eq!(status_on(&SYS_TIMER, &[]), FindingStatus::Ok);
        assert_eq!(
            status_on(&SYS_TIMER, &[(TIMER_MIGRATION_FILE, "x")]),
            FindingStatus::Unknown
        );
    }
}
