//! SYS-NUMABAL: the kernel moves pages after the threads that use them.

use quell_event::Cause;

use super::common;
use crate::finding::Severity;
use crate::fix::Fix;
use crate::look::{Look, Value};
use crate::rule::{Check, Checked, Rule};

const NAME: &str = "kernel.numa_balancing";
const FILE: &str = "/proc/sys/kernel/numa_balancing";

pub(super) const RULE: Rule = Rule {
    id: "SYS-NUMABAL",
    title: "automatic NUMA balancing",
    severity: Severity::High,
    why: "To learn who uses a page the kernel takes its mapping away, a shootdown, so that the next access is a \
          fault; then it may move the page, which is another one.",
    risk: "Memory stays where it was first touched: bind programs to nodes, or remote accesses stay remote.",
    source: "kernel Documentation/admin-guide/sysctl/kernel.rst, numa_balancing; \
             github.com/bitcharmer/tlb_shootdowns; johnnysswlab.com and jabperf.com; rigtorp.se/virtual-memory",
    causes: &[Cause::MigrateNuma],
    check: Check::System(check),
};

/// Bit 0 of the setting: pages follow threads. Bit 1 promotes pages from slow memory (mm/mprotect.c).
const NORMAL: i64 = 1;

fn check(look: &Look<'_>) -> Checked {
    let (value, read) = look.read(FILE);
    let (nodes, nodes_read) = common::nodes(look);
    let checked = match (value.number(), &value) {
        (Some(0), _) => Checked::ok("switched off"),
        (Some(mode), _) => on(mode, nodes),
        (None, Value::Absent) => Checked::ok("this kernel has none"),
        (None, _) => Checked::unknown("the setting can't be read"),
    };
    checked.read([read, nodes_read]).grows(&[
        "numa_pte_updates",
        "numa_hint_faults",
        "numa_pages_migrated",
    ])
}

fn on(mode: i64, nodes: Option<usize>) -> Checked {
    let hazard = |said: String| {
        Checked::hazard(said)
            .fix(Fix::sysctl(NAME, "0"))
            .fix(Fix::Cmdline("numa_balancing=disable".to_owned()))
    };
    match nodes {
        // who writes 1 there gets the faults of programs with threads all the same (kernel/sched/fair.c,
        // task_numa_work; from 6.16 not if cpusets are used)
        Some(1) if mode & NORMAL != 0 => {
            hazard(format!("on (mode {mode}), for nothing: there is one node"))
                .severity(Severity::Low)
        }
        Some(1) => Checked::ok("on, but there is one node and no slower memory"),
        Some(n) => hazard(format!("on (mode {mode}), with {n} nodes")),
        None => Checked::unknown("on, but how many nodes there are can't be read"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Status;
    use crate::rules::fixture::{ask, assert_hazard, status};

    const ONE: (&str, &str) = ("/sys/devices/system/node/online", "0");
    const TWO: (&str, &str) = ("/sys/devices/system/node/online", "0-1");

    /// Check that either mode is a hazard with several nodes, and off is none.
    #[test]
    fn on_is_a_hazard() {
        for mode in ["1", "2", "3"] {
            let found = ask(&RULE, &[(FILE, mode), TWO]);
            assert_hazard(
                &found,
                "sysctl -w kernel.numa_balancing=0",
                "sysctl.d: kernel.numa_balancing = 0\nkernel command line: numa_balancing=disable",
            );
            assert_eq!(found.severity, Severity::High);
        }
        assert_eq!(status(&RULE, &[(FILE, "0"), TWO]), Status::Ok);
        assert_eq!(status(&RULE, &[TWO]), Status::Ok);
    }

    /// Check that with one node it is a waste at most, and that without their number nothing is claimed.
    #[test]
    fn nodes_matter() {
        assert_eq!(ask(&RULE, &[(FILE, "1"), ONE]).severity, Severity::Low);
        assert_eq!(status(&RULE, &[(FILE, "1"), ONE]), Status::Hazard);
        assert_eq!(status(&RULE, &[(FILE, "2"), ONE]), Status::Ok);
        assert_eq!(status(&RULE, &[(FILE, "1")]), Status::Unknown);
        assert_eq!(status(&RULE, &[(FILE, "x"), TWO]), Status::Unknown);
    }
}
