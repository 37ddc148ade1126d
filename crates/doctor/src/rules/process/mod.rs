//! Rules about one process and its allocator.

mod blast;
mod common;
mod glibc;
mod hsperf;
mod jemalloc;
mod jemalloc_conf;
mod jvm;
mod ksm;
mod lazyfree;
mod major_faults;
mod mimalloc;
mod minor_faults;
mod mlock;
mod numa;
mod tcmalloc;
mod thp;
mod userfaultfd;
mod wbmap;

use crate::rule::AuditRule;

/// In the order of the documentation.
pub(super) const PROCESS_RULES: &[AuditRule] = &[
    major_faults::PROC_MAJFLT,
    minor_faults::PROC_MINFLT,
    mlock::PROC_MLOCK,
    wbmap::PROC_WBMAP,
    hsperf::PROC_HSPERF,
    ksm::PROC_KSM,
    thp::PROC_THP,
    lazyfree::PROC_LAZYFREE,
    userfaultfd::PROC_UFFD,
    numa::PROC_NUMA,
    blast::PROC_BLAST,
    glibc::ALLOC_GLIBC,
    jemalloc::ALLOC_JE,
    jemalloc_conf::ALLOC_JE_CONF,
    tcmalloc::ALLOC_TC,
    mimalloc::ALLOC_MI,
    jvm::ALLOC_JVM,
];
