//! wasmtime's pool, which gives an instance's pages back.

use quell_event::Mechanism;

use crate::advice::{AdviceEntry, SeenCost, Sight};

/// Faults that are not there where pages stay.
pub(super) const REFAULT_MECHANISMS: &[Mechanism] = &[
    Mechanism::FaultAnon,
    Mechanism::FaultFile,
    Mechanism::FaultCow,
    Mechanism::FaultEntry,
    Mechanism::Zeroing,
];

/// Namespaces of the pool, and of its queue of memory to give back.
const POOL_NAMESPACES: &[&str] = &["pooling", "decommit"];

pub(super) fn is_wasmtime(cost: &SeenCost) -> bool {
    cost.is_within("wasmtime::") || cost.is_in("_libwasmtime") || cost.is_in("libwasmtime")
}

pub(super) fn is_pool(cost: &SeenCost) -> bool {
    POOL_NAMESPACES.iter().any(|part| cost.is_within(part))
}

pub(super) const ADVICE_ENTRY: AdviceEntry = AdviceEntry {
    id: "wasmtime.keep-resident",
    what: "wasmtime's pool gives each instance's pages back by madvise, and the next one faults them in again",
    seen_by: "madvise by wasmtime's pooling allocator, with the faults of the code that it runs",
    mechanisms: &[
        Mechanism::Advise,
        Mechanism::ShootdownWait,
        Mechanism::FaultAnon,
        Mechanism::FaultFile,
        Mechanism::FaultCow,
        Mechanism::FaultEntry,
        Mechanism::Zeroing,
    ],
    switch: "PoolingAllocationConfig::linear_memory_keep_resident and table_keep_resident at what an instance touches: so many \
             bytes are cleared and stay",
    why: "a memset of what was touched is cheaper than madvise and faults: on two CPUs a small module went from 7,100 instances \
          a second to 25,000; decommit_batch_size alone, which spares interrupts, gave 7,700",
    source: "https://github.com/bytecodealliance/wasmtime/pull/5207",
    instead_of: &[],
    look: |scene| {
        let advise = [Mechanism::Advise];
        let given = Sight::of_costs(scene.costs_of(&advise, |c| is_wasmtime(c) && is_pool(c)))?;
        if !scene.is_much(given.cpu_ns) {
            return None;
        }
        let mechanisms = [&advise, REFAULT_MECHANISMS, &[Mechanism::ShootdownWait]].concat();
        let all = Sight::of_costs(scene.costs_of(&mechanisms, is_wasmtime))?;
        Some(Sight {
            place: given.place,
            ..all
        })
    },
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::testing::{fires, fires_by_evidence, is_quiet, recorded, scene};

    /// Check that a pool that gives pages back gets the advice to keep them, with the faults that this costs.
    #[test]
    fn fires_on_a_pool() {
        let advised = fires(&ADVICE_ENTRY, &recorded("12-wasmtime-pool"));
        assert!(advised.place.contains("pool"), "{advised:?}");
        is_quiet(&ADVICE_ENTRY, &recorded("12-wasmtime-ondemand"));
    }

    /// Check that it goes by the pool's madvise.
    #[test]
    fn goes_by_evidence() {
        let stack = "madvise (libc.so.6) < <wasmtime::runtime::vm::instance::allocator::pooling::decommit_queue>::flush (server)";
        fires_by_evidence(
            &ADVICE_ENTRY,
            &scene(&[(Mechanism::Advise, stack)]),
            "wasmtime",
        );
    }
}
