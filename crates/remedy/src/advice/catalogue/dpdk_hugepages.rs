//! DPDK, which has its huge pages cleared at every start.

use quell_event::Mechanism;

use crate::advice::{AdviceEntry, SeenCost, Sight};

const TOUCHED_MECHANISMS: &[Mechanism] = &[
    Mechanism::Zeroing,
    Mechanism::FaultHuge,
    Mechanism::Populate,
];

/// Its mapping of huge pages, in the legacy mode and in the dynamic one.
const HUGE_MAPPING_FUNCTIONS: &[&str] = &[
    "alloc_seg",
    "alloc_seg_walk",
    "eal_memalloc_alloc_seg",
    "eal_memalloc_alloc_seg_bulk",
    "eal_dynmem_hugepage_init",
    "eal_legacy_hugepage_init",
    "rte_eal_hugepage_init",
    "map_all_hugepages",
];

fn is_huge_mapping(cost: &SeenCost) -> bool {
    cost.calls_any(HUGE_MAPPING_FUNCTIONS)
}

pub(super) const ADVICE_ENTRY: AdviceEntry = AdviceEntry {
    id: "dpdk.hugepages",
    what: "DPDK has the kernel clear its huge pages as it starts",
    seen_by: "zeroing and faults of huge pages below DPDK's mapping of them",
    mechanisms: TOUCHED_MECHANISMS,
    switch: "--huge-unlink=never (DPDK 22.03): the files in hugetlbfs are used again as they are; old data stays in them",
    why: "more than 95 % of the time in which huge pages are mapped is spent on clearing them",
    source: "https://doc.dpdk.org/guides/rel_notes/release_22_03.html (and the programmer's guide, EAL, hugepage mapping)",
    instead_of: &[],
    look: |scene| Sight::of_costs(scene.costs_of(TOUCHED_MECHANISMS, is_huge_mapping)),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::testing::{fires_by_evidence, scene};

    /// Check that it goes by DPDK's mapping.
    #[test]
    fn goes_by_evidence() {
        let stack = "mmap (libc.so.6) < alloc_seg (librte_eal.so.23) < eal_memalloc_alloc_seg_bulk (librte_eal.so.23)";
        fires_by_evidence(
            &ADVICE_ENTRY,
            &scene(&[(Mechanism::Zeroing, stack)]),
            "dpdk-testpmd",
        );
    }
}
