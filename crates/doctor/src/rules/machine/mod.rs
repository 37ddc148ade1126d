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

use crate::rule::AuditRule;

/// In the order of the documentation.
pub(super) const MACHINE_RULES: &[AuditRule] = &[
    pcid::CPU_PCID,
    pti::CPU_PTI,
    la57::CPU_LA57,
    invlpgb::CPU_INVLPGB,
    ceiling::CPU_CEILING,
    smt::CPU_SMT,
    pv_flush::VM_PVFLUSH,
    steal::VM_STEAL,
    isolation::CPU_ISO,
    idle::CPU_IDLE,
    irq_affinity::IRQ_AFF,
    workqueue::WQ_MASK,
    vmstat_worker::SYS_STAT,
    watchdog::SYS_WDOG,
    timer_migration::SYS_TIMER,
    rt_throttle::SYS_RT,
    mce::SYS_MCE,
    clocksource::SYS_CLOCK,
    cgroup_memory::CG_MEM,
    cgroup_cpuset::CG_CPUSET,
    conflict::META_CONFLICT,
];
