//! The kernel's own work on a program's memory, and the setting of a process that keeps it away.

use std::collections::BTreeMap;

use quell_event::{Cause, Mechanism};

use super::{
    HUGE_PAGE_WORK, LARGE_SHARE, MemoryGrowth, Offer, Remedy, RemedyAnswer, RemedyCase,
    ShootdownOrigin,
};
use crate::Touches;

/// No transparent huge pages.
pub(crate) const NO_HUGE_PAGES: Remedy = Remedy {
    id: "thp.never",
    stops: "the collapsing of pages into huge ones by khugepaged, and their splitting",
    worse: "a program that gains from huge pages: without them more page faults and TLB misses; jemalloc's thp:always does nothing then",
    source: "prctl(2), PR_SET_THP_DISABLE; kernel mm/khugepaged.c and include/linux/huge_mm.h (MMF_DISABLE_THP). Not measured here",
    touches: Touches::everywhere(
        HUGE_PAGE_WORK,
        "no huge page is looked for, zeroed or made; small ones are faulted in instead",
    ),
    consider: |case| {
        consider_setting(
            case,
            &[Cause::ThpCollapse, Cause::ThpSplit],
            ["thp", "never"],
            MemoryGrowth::Share(0.0),
            "no huge pages: more page faults and TLB misses. By how it works; not measured here",
        )
    },
    ..Remedy::BY_SETTING
};

/// No merging of same pages.
pub(super) const NO_MERGING: Remedy = Remedy {
    id: "ksm.never",
    stops: "the merging of same pages by ksmd, where the program inherited it",
    worse: "memory that merging saved is used again; a program that asks for it by madvise(MADV_MERGEABLE) is merged still",
    source: "prctl(2), PR_SET_MEMORY_MERGE (Linux 6.4); kernel Documentation/admin-guide/mm/ksm.rst. Not measured here",
    touches: Touches::everywhere(
        &[Mechanism::FaultCow],
        "no page is merged, so that none is copied when it is written",
    ),
    consider: |case| {
        consider_setting(
            case,
            &[Cause::Ksm],
            ["ksm", "never"],
            MemoryGrowth::Unknown,
            "pages that are the same are kept twice; how much that is was not measured",
        )
    },
    ..Remedy::BY_SETTING
};

/// Memory from the node where it is touched first, by a policy of the process's own.
pub(super) const LOCAL_MEMORY: Remedy = Remedy {
    id: "numa.local",
    stops: "the hinting faults and migrations of automatic NUMA balancing: memory with a policy of its own is not scanned",
    worse: "threads that move to another node keep their memory on the old one: pin them too (cpus), or leave it",
    source: "kernel mm/mempolicy.c, vma_policy_mof(); kernel/sched/fair.c, task_numa_work(). Not measured here",
    touches: Touches::everywhere(
        &[Mechanism::Migrate],
        "no page is unmapped to see who uses it, and none moves",
    ),
    consider: |case| {
        consider_setting(
            case,
            &[Cause::MigrateNuma],
            ["numa", "local"],
            MemoryGrowth::Share(0.0),
            "memory does not follow its threads to another node. By how it works; not measured here",
        )
    },
    ..Remedy::BY_SETTING
};

/// Offers one setting of a process, by its key and value, against the kernel's own work of these causes.
fn consider_setting(
    case: &RemedyCase<'_>,
    causes: &[Cause],
    [key, value]: [&str; 2],
    memory: MemoryGrowth,
    cost: &str,
) -> Option<RemedyAnswer> {
    let part = case.part_of_causes(causes);
    if !matches!(case.origin, ShootdownOrigin::Kernel) || part == 0.0 {
        return None;
    }
    let of_all = part * case.shootdowns() as f64 / case.total.max(1) as f64;
    if of_all < LARGE_SHARE {
        return Some(RemedyAnswer::Refuse(format!(
            "{key}={value} would stop them at a price for the whole program, and is chosen from {:.0} % of all \
             shootdowns on",
            LARGE_SHARE * 100.0
        )));
    }
    Some(RemedyAnswer::one(Offer {
        starts: BTreeMap::from([(key.to_owned(), value.to_owned())]),
        // All of them, by how the kernel works; one in ten is left for the time before the setting.
        stops: part * 0.9,
        memory,
        cost: cost.to_owned(),
        ..Offer::default()
    }))
}
