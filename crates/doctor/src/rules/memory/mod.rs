//! Rules about how the kernel manages memory.

mod balloon;
mod common;
mod compact;
mod compact_mlock;
mod damon;
mod demotion;
mod hugepool;
mod khugepaged;
mod ksm;
mod ksm_residue;
mod luf;
mod mglru;
mod mthp;
mod numa_balancing;
mod numad;
mod swap;
mod thp;
mod thp_defrag;
mod thp_shmem;
mod thp_shrink;
mod watermarks;
mod writeback;
mod zone_reclaim;

use crate::rule::AuditRule;

/// In the order of the documentation.
pub(super) const MEMORY_RULES: &[AuditRule] = &[
    thp::SYS_THP,
    mthp::SYS_MTHP,
    thp_defrag::SYS_THP_DEFRAG,
    khugepaged::SYS_KHUGE,
    thp_shmem::SYS_THP_SHMEM,
    thp_shrink::SYS_THP_SHRINK,
    ksm::SYS_KSM,
    ksm_residue::SYS_KSM_RESIDUE,
    numa_balancing::SYS_NUMABAL,
    demotion::SYS_DEMOTE,
    luf::SYS_LUF,
    zone_reclaim::SYS_ZRECLAIM,
    numad::SYS_NUMAD,
    swap::SYS_SWAP,
    compact::SYS_COMPACT,
    compact_mlock::SYS_COMPACT_MLOCK,
    watermarks::SYS_WMARK,
    writeback::SYS_WB,
    damon::SYS_DAMON,
    mglru::SYS_MGLRU,
    hugepool::SYS_HUGEPOOL,
    balloon::SYS_BALLOON,
];
