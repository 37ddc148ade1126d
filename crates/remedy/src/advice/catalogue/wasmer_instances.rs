//! wasmer, which maps memory for each instance.

use quell_event::Mechanism;

use crate::advice::{AdviceEntry, SeenCost, Sight};

const TOUCHED_MECHANISMS: &[Mechanism] = &[
    Mechanism::Map,
    Mechanism::Unmap,
    Mechanism::Protect,
    Mechanism::LockMmap,
    Mechanism::ShootdownWait,
];

fn is_wasmer(cost: &SeenCost) -> bool {
    cost.is_within("wasmer_vm::") || cost.is_in("libwasmer")
}

pub(super) const ADVICE_ENTRY: AdviceEntry = AdviceEntry {
    id: "wasmer.instances",
    what: "wasmer maps memory for each instance, and unmaps it",
    seen_by: "mmap, munmap and mprotect by wasmer's own code",
    mechanisms: TOUCHED_MECHANISMS,
    switch: "keep an instance and its Store for many calls; or Tunables of your own that hand out memories from a pool for each \
             thread",
    why: "mappings of an address space are made and removed one after the other: with a pool for each thread 28 threads went \
          from 60,000 calls a second to 1,150,000 (a change that was offered, and not taken over)",
    source: "https://github.com/wasmerio/wasmer/pull/6651",
    instead_of: &[],
    look: |scene| Sight::of_costs(scene.costs_of(TOUCHED_MECHANISMS, is_wasmer)),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::testing::{fires_by_evidence, scene};

    /// Check that it goes by wasmer's mappings.
    #[test]
    fn goes_by_evidence() {
        let stack =
            "munmap (libc.so.6) < <wasmer_vm::mmap::Mmap as core::ops::drop::Drop>::drop (host)";
        fires_by_evidence(
            &ADVICE_ENTRY,
            &scene(&[(Mechanism::Unmap, stack)]),
            "wasmer",
        );
    }
}
