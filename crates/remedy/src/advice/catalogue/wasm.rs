//! Runtimes of WebAssembly.

use quell_event::Mechanism;

use crate::advice::{AdviceEntry, Scene, SeenCost, Sight};

fn is_wasmer(cost: &SeenCost) -> bool {
    cost.is_within("wasmer_vm::") || cost.is_in("libwasmer")
}

/// wasmer, which maps memory for each instance.
pub(super) const WASMER_INSTANCES: AdviceEntry = AdviceEntry {
    id: "wasmer.instances",
    what: "wasmer maps memory for each instance, and unmaps it",
    seen_by: "mmap, munmap and mprotect by wasmer's own code",
    mechanisms: &[
        Mechanism::Map,
        Mechanism::Unmap,
        Mechanism::Protect,
        Mechanism::LockMmap,
        Mechanism::ShootdownWait,
    ],
    switch: "keep an instance and its Store for many calls; or Tunables of your own that hand out memories from a pool for each \
             thread",
    why: "mappings of an address space are made and removed one after the other: with a pool for each thread 28 threads went \
          from 60,000 calls a second to 1,150,000 (a change that was offered, and not taken over)",
    source: "https://github.com/wasmerio/wasmer/pull/6651",
    instead_of: &[],
    look: |entry, scene| entry.costs(scene, is_wasmer),
};

/// Namespaces of the pool, and of its queue of memory to give back.
const POOL_NAMESPACES: &[&str] = &["pooling", "decommit"];

fn is_wasmtime(cost: &SeenCost) -> bool {
    cost.is_within("wasmtime::") || cost.is_in("_libwasmtime") || cost.is_in("libwasmtime")
}

fn is_pool(cost: &SeenCost) -> bool {
    POOL_NAMESPACES.iter().any(|part| cost.is_within(part))
}

/// The sum of wasmtime's costs where such costs of the first mechanisms are much by themselves: these prove that the entry applies,
/// and the faults that would not be there if pages stayed come with them.
fn of_wasmtime(
    entry: &AdviceEntry,
    first: &[Mechanism],
    scene: &Scene,
    is_such: impl Fn(&SeenCost) -> bool,
) -> Option<Sight> {
    let proof = Sight::of_costs(scene.costs_of(first, |c| is_wasmtime(c) && is_such(c)))?;
    if !scene.is_much(proof.cpu_ns) {
        return None;
    }
    Some(Sight {
        place: proof.place,
        ..entry.costs(scene, is_wasmtime)?
    })
}

/// wasmtime without its pool: each instance is mapped, and unmapped.
pub(super) const WASMTIME_POOL: AdviceEntry = AdviceEntry {
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
        Mechanism::FaultCow,
        Mechanism::FaultEntry,
        Mechanism::Zeroing,
    ],
    switch: "InstanceAllocationStrategy::Pooling with linear_memory_keep_resident and table_keep_resident at what an instance \
             touches (the C API has the same settings)",
    why: "with a pool nothing is mapped for an instance; on two CPUs a small module went from 6,200 instances a second to 7,100 \
          with the pool alone, and 25,000 with its pages kept resident",
    source: "https://docs.wasmtime.dev/api/wasmtime/struct.PoolingAllocationConfig.html",
    instead_of: &["wasmtime.keep-resident"],
    look: |entry, scene| {
        let mapping = [Mechanism::Map, Mechanism::Unmap, Mechanism::Protect];
        of_wasmtime(entry, &mapping, scene, |cost| !is_pool(cost))
    },
};

/// wasmtime's pool, which gives an instance's pages back.
pub(super) const WASMTIME_RESIDENT: AdviceEntry = AdviceEntry {
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
    look: |entry, scene| of_wasmtime(entry, &[Mechanism::Advise], scene, is_pool),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::testing::{fires, fires_by_evidence, is_quiet, recorded, scene};

    /// Check that it goes by wasmer's mappings.
    #[test]
    fn wasmer_instances_goes_by_evidence() {
        let stack =
            "munmap (libc.so.6) < <wasmer_vm::mmap::Mmap as core::ops::drop::Drop>::drop (host)";
        fires_by_evidence(
            &WASMER_INSTANCES,
            &scene(&[(Mechanism::Unmap, stack)]),
            "wasmer",
        );
    }

    /// Check that instances on demand get the advice to use the pool, and those of a pool don't.
    #[test]
    fn fires_on_instances() {
        let advised = fires(&WASMTIME_POOL, &recorded("12-wasmtime-ondemand"));
        assert!(advised.place.contains("wasmtime"), "{advised:?}");
        is_quiet(&WASMTIME_POOL, &recorded("12-wasmtime-pool"));
    }

    /// Check that it goes by wasmtime's unmapping.
    #[test]
    fn wasmtime_pool_goes_by_evidence() {
        let stack = "munmap (libc.so.6) < <wasmtime::runtime::vm::mmap::Mmap>::drop (server)";
        fires_by_evidence(
            &WASMTIME_POOL,
            &scene(&[(Mechanism::Unmap, stack)]),
            "wasmtime",
        );
    }

    /// Check that a pool that gives pages back gets the advice to keep them, with the faults that this costs.
    #[test]
    fn fires_on_a_pool() {
        let advised = fires(&WASMTIME_RESIDENT, &recorded("12-wasmtime-pool"));
        assert!(advised.place.contains("pool"), "{advised:?}");
        is_quiet(&WASMTIME_RESIDENT, &recorded("12-wasmtime-ondemand"));
    }

    /// Check that it goes by the pool's madvise.
    #[test]
    fn wasmtime_resident_goes_by_evidence() {
        let stack = "madvise (libc.so.6) < <wasmtime::runtime::vm::instance::allocator::pooling::decommit_queue>::flush (server)";
        fires_by_evidence(
            &WASMTIME_RESIDENT,
            &scene(&[(Mechanism::Advise, stack)]),
            "wasmtime",
        );
    }
}
