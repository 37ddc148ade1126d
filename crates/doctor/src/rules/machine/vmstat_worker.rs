//! SYS-STAT: counters of memory are gathered often.

use crate::rules::prelude::*;

use super::common::{ISOLATED_CPUS_FILE, NOHZ_FULL_FILE, cpu_list, cpus_without, kernel_version};

const STAT_INTERVAL_FILE: &str = "/proc/sys/vm/stat_interval";
/// Seconds, as tuned's realtime profiles set it.
const ENOUGH_INTERVAL_S: i64 = 10;
/// From here on CPUs that are set apart are left out (mm/vmstat.c, vmstat_shepherd).
const FIRST_HEEDING_KERNEL: (u32, u32) = (6, 5);

pub(super) const SYS_STAT: AuditRule = AuditRule {
    id: "SYS-STAT",
    title: "counters of memory are gathered often",
    severity: Severity::Low,
    why: "A kworker of each CPU that touched memory wakes up at this interval to add up counters, and takes the \
          CPU from the hot thread for some µs.",
    risk: "Numbers of pages in /proc/vmstat and /proc/meminfo are up to 10 s old.",
    source: "github.com/bitcharmer/tlb_shootdowns; tuned profile cpu-partitioning; kernel \
             Documentation/admin-guide/sysctl/vm.rst, stat_interval",
    causes: &[],
    check: RuleCheck::System(check_sys_stat),
};

fn check_sys_stat(look: &SystemView<'_>) -> CheckResult {
    let (value, read) = look.read(STAT_INTERVAL_FILE);
    let checked = match (value.number(), &value) {
        (Some(seconds), _) if seconds >= ENOUGH_INTERVAL_S => {
            CheckResult::ok(format!("every {seconds} s"))
        }
        (Some(_), _) if are_left_out(look) => {
            CheckResult::ok("the CPUs that are set apart are left out (Linux 6.5 and later)")
        }
        (Some(seconds), _) => CheckResult::hazard(format!("every {seconds} s")).with_fix(
            Fix::set_sysctl("vm.stat_interval", ENOUGH_INTERVAL_S.to_string()),
        ),
        (None, FileValue::Absent) => CheckResult::ok("this kernel has none (one CPU)"),
        (None, _) => CheckResult::unknown("the setting can't be read"),
    };
    checked.with_reads([read])
}

/// Whether all hot CPUs are set apart by the kernel's own means, and the kernel heeds that.
fn are_left_out(look: &SystemView<'_>) -> bool {
    let hot = look.hot_cpus();
    let lists = [ISOLATED_CPUS_FILE, NOHZ_FULL_FILE]
        .map(|path| cpu_list(&look.file(path)).unwrap_or_default());
    let apart = lists.concat();
    let heeds = kernel_version(look).is_some_and(|r| r >= FIRST_HEEDING_KERNEL);
    heeds && !hot.is_empty() && cpus_without(&hot, &apart).is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::FindingStatus;
    use crate::rules::fixture::{ask_rule_on, assert_hazard, status_on};

    /// Check that the kernel's default is a hazard, and ten seconds are none.
    #[test]
    fn the_default_is_a_hazard() {
        assert_hazard(
            &ask_rule_on(&SYS_STAT, &[(STAT_INTERVAL_FILE, "1")]),
            "sysctl -w vm.stat_interval=10",
            "sysctl.d: vm.stat_interval = 10",
        );
        assert_eq!(
            status_on(&SYS_STAT, &[(STAT_INTERVAL_FILE, "10")]),
            FindingStatus::Ok
        );
        assert_eq!(
            status_on(&SYS_STAT, &[(STAT_INTERVAL_FILE, "120")]),
            FindingStatus::Ok
        );
        assert_eq!(status_on(&SYS_STAT, &[]), FindingStatus::Ok);
        assert_eq!(
            status_on(&SYS_STAT, &[(STAT_INTERVAL_FILE, "x")]),
            FindingStatus::Unknown
        );
    }

    /// Check that it doesn't matter to CPUs that the kernel leaves out, and does under an older one.
    #[test]
    fn cpus_set_apart_are_left_out() {
        let files = |release| {
            [
                (STAT_INTERVAL_FILE, "1"),
                (ISOLATED_CPUS_FILE, "2-3"),
                ("/proc/sys/kernel/osrelease", release),
            ]
        };
        assert_eq!(status_on(&SYS_STAT, &files("6.12.0")), FindingStatus::Ok);
        assert_eq!(
            status_on(&SYS_STAT, &files("6.1.0-18")),
            FindingStatus::Hazard
        );
    }
}
