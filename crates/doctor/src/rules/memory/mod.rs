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

use crate::rule::Rule;

/// In the order of the documentation.
pub(super) const ALL: &[Rule] = &[
    thp::RULE,
    mthp::RULE,
    thp_defrag::RULE,
    khugepaged::RULE,
    thp_shmem::RULE,
    thp_shrink::RULE,
    ksm::RULE,
    ksm_residue::RULE,
    numa_balancing::RULE,
    demotion::RULE,
    luf::RULE,
    zone_reclaim::RULE,
    numad::RULE,
    swap::RULE,
    compact::RULE,
    compact_mlock::RULE,
    watermarks::RULE,
    writeback::RULE,
    damon::RULE,
    mglru::RULE,
    hugepool::RULE,
    balloon::RULE,
];
