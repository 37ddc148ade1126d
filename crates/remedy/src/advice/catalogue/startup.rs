//! Memory that is brought in as a program starts.

use quell_event::Mechanism;

use crate::advice::AdviceEntry;

/// DPDK's mapping of huge pages, in the legacy mode and in the dynamic one.
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

/// DPDK, which has its huge pages cleared at every start.
pub(super) const DPDK_HUGEPAGES: AdviceEntry = AdviceEntry {
    id: "dpdk.hugepages",
    what: "DPDK has the kernel clear its huge pages as it starts",
    seen_by: "zeroing and faults of huge pages below DPDK's mapping of them",
    mechanisms: &[
        Mechanism::Zeroing,
        Mechanism::FaultHuge,
        Mechanism::Populate,
    ],
    switch: "--huge-unlink=never (DPDK 22.03): the files in hugetlbfs are used again as they are; old data stays in them",
    why: "more than 95 % of the time in which huge pages are mapped is spent on clearing them",
    source: "https://doc.dpdk.org/guides/rel_notes/release_22_03.html (and the programmer's guide, EAL, hugepage mapping)",
    instead_of: &[],
    look: |entry, scene| entry.costs(scene, |cost| cost.calls_any(HUGE_MAPPING_FUNCTIONS)),
};

/// Programs that lock all of their memory at once.
pub(super) const MLOCKALL_ONFAULT: AdviceEntry = AdviceEntry {
    id: "mlockall.onfault",
    what: "mlockall(2) brings in every page that is mapped, used or not",
    seen_by: "time below mlockall",
    mechanisms: &[
        Mechanism::Populate,
        Mechanism::FaultAnon,
        Mechanism::FaultFile,
        Mechanism::FaultMajor,
        Mechanism::Zeroing,
        Mechanism::ReclaimDirect,
    ],
    switch: "MCL_ONFAULT (Linux 4.4): pages are locked when they are first touched; or mlock(2) on what must never wait",
    why: "stacks, arenas and files are brought in whole, most of which is never used; Android's low memory killer locks so for \
          that reason",
    source: "https://man7.org/linux/man-pages/man2/mlock.2.html",
    instead_of: &[],
    look: |entry, scene| entry.costs(scene, |cost| cost.calls_any(&["mlockall"])),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::testing::{fires, fires_by_evidence, recorded, scene};

    /// Check that it goes by DPDK's mapping.
    #[test]
    fn dpdk_hugepages_goes_by_evidence() {
        let stack = "mmap (libc.so.6) < alloc_seg (librte_eal.so.23) < eal_memalloc_alloc_seg_bulk (librte_eal.so.23)";
        fires_by_evidence(
            &DPDK_HUGEPAGES,
            &scene(&[(Mechanism::Zeroing, stack)]),
            "dpdk-testpmd",
        );
    }

    /// Check that a program which locks 1 GB that it does not touch fires it.
    #[test]
    fn fires_on_a_program() {
        let advised = fires(&MLOCKALL_ONFAULT, &recorded("mlockall"));
        assert!(advised.place.contains("main (lockall)"), "{advised:?}");
    }

    /// Check that it goes by the call.
    #[test]
    fn mlockall_onfault_goes_by_evidence() {
        let stack = "mlockall (libc.so.6) < main (corosync)";
        fires_by_evidence(
            &MLOCKALL_ONFAULT,
            &scene(&[(Mechanism::Populate, stack)]),
            "corosync",
        );
    }
}
