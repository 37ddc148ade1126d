//! Erlang, whose large carriers are unmapped as soon as they are free.

use quell_event::Mechanism;

use crate::advice::{AdviceEntry, SeenCost, Sight};

const TOUCHED_MECHANISMS: &[Mechanism] = &[
    Mechanism::Map,
    Mechanism::Unmap,
    Mechanism::LockMmap,
    Mechanism::ShootdownWait,
];

fn is_carrier(cost: &SeenCost) -> bool {
    const CARRIER_FUNCTIONS: &[&str] = &["erts_mmap", "erts_munmap", "erts_mremap"];
    cost.is_within("erts_mseg_") || cost.calls_any(CARRIER_FUNCTIONS)
}

pub(super) const ADVICE_ENTRY: AdviceEntry = AdviceEntry {
    id: "erlang.carriers",
    what: "Erlang's allocators map memory for large binaries and heaps, and unmap it",
    seen_by: "mmap and munmap below erts_mseg_…",
    mechanisms: TOUCHED_MECHANISMS,
    switch: "+MMscs MB +MMsco false (a super carrier as large as the peak; without the second it ends where that is full) or \
             +MMmcs 30 (more segments are kept); both keep memory, and quell prove tries the like",
    why: "a segment that is free goes back to the system where ten are kept already. Copies of 20 binaries of 1 MB on OTP 25, two \
          CPUs: 1.3 s of CPU time by default, 0.42 s with +MMscs 512, 0.45 s with +MMmcs 30",
    source: "https://www.erlang.org/doc/apps/erts/erts_alloc.html",
    instead_of: &[],
    look: |scene| Sight::if_any_of(&[Mechanism::Unmap], scene, TOUCHED_MECHANISMS, is_carrier),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::testing::{fires, fires_by_evidence, recorded, scene};

    /// Check that copies of large binaries fire it.
    #[test]
    fn fires_on_binaries() {
        let advised = fires(&ADVICE_ENTRY, &recorded("erlang-binaries"));
        assert!(advised.place.contains("beam.smp"), "{advised:?}");
    }

    /// Check that it goes by the carriers.
    #[test]
    fn goes_by_evidence() {
        let stack = "munmap (libc.so.6) < ? (beam.smp) < erts_mseg_dealloc_opt (beam.smp)";
        fires_by_evidence(
            &ADVICE_ENTRY,
            &scene(&[(Mechanism::Unmap, stack)]),
            "beam.smp",
        );
    }
}
