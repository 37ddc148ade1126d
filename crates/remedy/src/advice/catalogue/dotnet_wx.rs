//! .NET's compiler, which maps its code twice to write it.

use quell_event::Mechanism;

use crate::advice::{AdviceEntry, SeenCost, Sight};

const TOUCHED_MECHANISMS: &[Mechanism] = &[
    Mechanism::Map,
    Mechanism::Unmap,
    Mechanism::FaultFile,
    Mechanism::LockMmap,
    Mechanism::ShootdownWait,
];

fn is_compilation(cost: &SeenCost) -> bool {
    cost.is_in("libclrjit.so")
        || cost.calls_any(&["ExecutableAllocator::MapRW", "ExecutableAllocator::UnmapRW"])
}

pub(super) const ADVICE_ENTRY: AdviceEntry = AdviceEntry {
    id: "dotnet.write-xor-execute",
    what: ".NET maps code a second time to write it, for each method that it compiles",
    seen_by: "mmap, munmap and faults of shared memory below libclrjit.so or ExecutableAllocator::MapRW",
    mechanisms: TOUCHED_MECHANISMS,
    switch: "DOTNET_EnableWriteXorExecute=0, where that protection may be given up; or code compiled ahead (ReadyToRun)",
    why: "no page is writable and executable at once from .NET 7 on, so that writing takes a mapping: a slower \
          Expression.Compile in .NET 7 was as fast as before with it off",
    source: "https://github.com/dotnet/runtime/issues/75891 https://github.com/dotnet/runtime/pull/54954",
    instead_of: &[],
    look: |scene| {
        Sight::if_any_of(
            &[Mechanism::Map, Mechanism::Unmap],
            scene,
            TOUCHED_MECHANISMS,
            is_compilation,
        )
    },
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::testing::{fires_by_evidence, scene};

    /// Check that it goes by mappings that the compiler makes.
    #[test]
    fn goes_by_evidence() {
        let stack = "mmap (libc.so.6) < ? (libcoreclr.so) < ? (libclrjit.so) < ? (libcoreclr.so)";
        fires_by_evidence(&ADVICE_ENTRY, &scene(&[(Mechanism::Map, stack)]), "dotnet");
    }
}
