//! Rules about CPUs, interrupts, the hypervisor, cgroups, and who manages them.

mod ceiling;
mod cgroup_cpuset;
mod cgroup_memory;
mod clocksource;
mod common;
mod conflict;
mod idle;
mod invlpgb;
mod irq_affinity;
mod isolation;
mod la57;
mod mce;
mod pcid;
mod pti;
mod pv_flush;
mod rt_throttle;
mod smt;
mod steal;
mod timer_migration;
mod vmstat_worker;
mod watchdog;
mod workqueue;

use std::path::Path;

use crate::evidence::Evidence;
use crate::look::Look;
use crate::profile::Profile;
use crate::rule::Rule;

pub(crate) use cgroup_memory::COUNTER as MEMORY_LIMIT;
pub(crate) use conflict::last_set;

/// In the order of the documentation.
pub(super) const ALL: &[Rule] = &[
    pcid::RULE,
    pti::RULE,
    la57::RULE,
    invlpgb::RULE,
    ceiling::RULE,
    smt::RULE,
    pv_flush::RULE,
    steal::RULE,
    isolation::RULE,
    idle::RULE,
    irq_affinity::RULE,
    workqueue::RULE,
    vmstat_worker::RULE,
    watchdog::RULE,
    timer_migration::RULE,
    rt_throttle::RULE,
    mce::RULE,
    clocksource::RULE,
    cgroup_memory::RULE,
    cgroup_cpuset::RULE,
    conflict::RULE,
];

/// How often the limits of the memory of a process were reached; `None` if that can't be read.
pub(crate) fn memory_limit(root: &Path, pid: u32) -> Option<u64> {
    let evidence = Evidence::default();
    let look = Look::new(root, Some(pid), Profile::default(), &evidence);
    cgroup_memory::reached(&look, look.process()?)
}
