//! wasmtime without its pool: each instance is mapped, and unmapped.

use quell_event::Mechanism;

use super::wasmtime_resident::{REFAULT_MECHANISMS, is_pool, is_wasmtime};
use crate::advice::{AdviceEntry, Sight};

const MAPPING_MECHANISMS: &[Mechanism] = &[Mechanism::Map, Mechanism::Unmap, Mechanism::Protect];

pub(super) const ADVICE_ENTRY: AdviceEntry = AdviceEntry {
    id: "wasmtime.pool",
    what: "wasmtime maps memory for each instance, and unmaps it",
    seen_by: "mmap, munmap and mprotect by wasmtime's own code, and none of its pooling allocator on the stack",
    mechanisms: &[
        Mechanism::Map,
        Mechanism::Unmap,
        Mechanism::Protect,
        Mechanism::ShootdownWait,
        Mechanism::LockMmap,
        Mechanism::FaultAnon,
        Mechanism::FaultFile,
        Mechanism::FaultEntry,
        Mechanism::Zeroing,
    ],
    switch: "InstanceAllocationStrategy::Pooling with linear_memory_keep_resident and table_keep_resident at what an instance \
             touches (the C API has the same settings)",
    why: "with a pool nothing is mapped for an instance; on two CPUs a small module went from 6,200 instances a second to 7,100 \
          with the pool alone, and 25,000 with its pages kept resident",
    source: "https://docs.wasmtime.dev/api/wasmtime/struct.PoolingAllocationConfig.html",
    instead_of: &["wasmtime.keep-resident"],
    look: |scene| {
        let mapping =
            Sight::of_costs(scene.costs_of(MAPPING_MECHANISMS, |c| is_wasmtime(c) && !is_pool(c)))?;
        if !scene.is_much(mapping.cpu_ns) {
            return None;
        }
        let mechanisms = [
            MAPPING_MECHANISMS,
            REFAULT_MECHANISMS,
            &[Mechanism::ShootdownWait, Mechanism::LockMmap],
        ]
        .concat();
        let all = Sight::of_costs(scene.costs_of(&mechanisms, is_wasmtime))?;
        Some(Sight {
            place: mapping.place,
            ..all
        })
    },
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::testing::{fires, fires_by_evidence, is_quiet, recorded, scene};

    /// Check that instances on demand get the advice to use the pool, and those of a pool don't.
    #[test]
    fn fires_on_instances() {
        let advised = fires(&ADVICE_ENTRY, &recorded("12-wasmtime-ondemand"));
        assert!(advised.place.contains("wasmtime"), "{advised:?}");
        is_quiet(&ADVICE_ENTRY, &recorded("12-wasmtime-pool"));
    }

    /// Check that it goes by wasmtime's unmapping.
    #[test]
    fn goes_by_evidence() {
        let stack = "munmap (libc.so.6) < <wasmtime::runtime::vm::mmap::Mmap>::drop (server)";
        fires_by_evidence(
            &ADVICE_ENTRY,
            &scene(&[(Mechanism::Unmap, stack)]),
            "wasmtime",
        );
    }
}
