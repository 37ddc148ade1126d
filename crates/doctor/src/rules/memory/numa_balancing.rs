//! SYS-NUMABAL: the kernel moves pages after the threads that use them.

use crate::rules::prelude::*;

use super::common;

const NUMA_BALANCING_FILE: &str = "/proc/sys/kernel/numa_balancing";

pub(super) const SYS_NUMABAL: AuditRule = AuditRule {
    id: "SYS-NUMABAL",
    title: "automatic NUMA balancing",
    severity: Severity::High,
    why: "To learn who uses a page the kernel takes its mapping away, a shootdown, so that the next access is a \
          fault; then it may move the page, which is another one.",
    risk: "Memory stays where it was first touched: bind programs to nodes, or remote accesses stay remote.",
    source: "kernel Documentation/admin-guide/sysctl/kernel.rst, numa_balancing; \
             github.com/bitcharmer/tlb_shootdowns; johnnysswlab.com and jabperf.com; rigtorp.se/virtual-memory",
    causes: &[Cause::MigrateNuma],
    check: RuleCheck::System(check_sys_numabal),
};

/// Bit 0 of the setting: pages follow threads. Bit 1 promotes pages from slow memory (mm/mprotect.c).
const FOLLOWS_THREADS_BIT: i64 = 1;

fn check_sys_numabal(look: &SystemView<'_>) -> CheckResult {
    let (value, read) = look.read(NUMA_BALANCING_FILE);
    let (nodes, nodes_read) = common::count_nodes(look);
    let checked = match (value.number(), &value) {
        (Some(0), _) => CheckResult::ok("switched off"),
        (Some(mode), _) => judge_numa_mode(mode, nodes),
        (None, FileValue::Absent) => CheckResult::ok("this kernel has none"),
        (None, _) => CheckResult::unknown("the setting can't be read"),
    };
    checked.with_reads([read, nodes_read]).with_harm_counters(&[
        "numa_pte_updates",
        "numa_hint_faults",
        "numa_pages_migrated",
    ])
}

fn judge_numa_mode(mode: i64, nodes: Option<usize>) -> CheckResult {
    let hazard = |said: String| {
        CheckResult::hazard(said)
            .with_fix(Fix::set_sysctl("kernel.numa_balancing", "0"))
            .with_fix(Fix::Cmdline("numa_balancing=disable".to_owned()))
    };
    match nodes {
        // who writes 1 there gets the faults of programs with threads all the same (kernel/sched/fair.c,
        // task_numa_work; from 6.16 not if cpusets are used)
        Some(1) if mode & FOLLOWS_THREADS_BIT != 0 => {
            hazard(format!("on (mode {mode}), for nothing: there is one node"))
                .with_severity(Severity::Low)
        }
        Some(1) => CheckResult::ok("on, but there is one node and no slower memory"),
        Some(n) => hazard(format!("on (mode {mode}), with {n} nodes")),
        None => CheckResult::unknown("on, but how many nodes there are can't be read"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::FindingStatus;
    use crate::rules::fixture::{ask_rule_on, assert_hazard, status_on};

    const ONE: (&str, &str) = ("/sys/devices/system/node/online", "0");
    const TWO: (&str, &str) = ("/sys/devices/system/node/online", "0-1");

    /// Check that either mode is a hazard with several nodes, and off is none.
    #[test]
    fn on_is_a_hazard() {
        for mode in ["1", "2", "3"] {
            let found = ask_rule_on(&SYS_NUMABAL, &[(NUMA_BALANCING_FILE, mode), TWO]);
            assert_hazard(
                &found,
                "sysctl -w kernel.numa_balancing=0",
                "sysctl.d: kernel.numa_balancing = 0\nkernel command line: numa_balancing=disable",
            );
            assert_eq!(found.severity, Severity::High);
        }
        assert_eq!(
            status_on(&SYS_NUMABAL, &[(NUMA_BALANCING_FILE, "0"), TWO]),
            FindingStatus::Ok
        );
        assert_eq!(status_on(&SYS_NUMABAL, &[TWO]), FindingStatus::Ok);
    }

    /// Check that with one node it is a waste at most, and that without their number nothing is claimed.
    #[test]
    fn nodes_matter() {
        assert_eq!(
            ask_rule_on(&SYS_NUMABAL, &[(NUMA_BALANCING_FILE, "1"), ONE]).severity,
            Severity::Low
        );
        assert_eq!(
            status_on(&SYS_NUMABAL, &[(NUMA_BALANCING_FILE, "1"), ONE]),
            FindingStatus::Hazard
        );
        assert_eq!(
            status_on(&SYS_NUMABAL, &[(NUMA_BALANCING_FILE, "2"), ONE]),
            FindingStatus::Ok
        );
        assert_eq!(
            status_on(&SYS_NUMABAL, &[(NUMA_BALANCING_FILE, "1")]),
            FindingStatus::Unknown
        );
        assert_eq!(
            status_on(&SYS_NUMABAL, &[(NUMA_BALANCING_FILE, "x"), TWO]),
            FindingStatus::Unknown
        );
    }
}
