//! .NET's collector and compiler.

use quell_event::Mechanism;

use crate::advice::{AdviceEntry, SeenCost, Sight};

/// The collector's own calls; it lies in the runtime's library, or in one of its own.
fn is_collector(cost: &SeenCost) -> bool {
    let asker = cost.asking_frame();
    asker.is_some_and(|f| f.file.starts_with("libclrgc") || f.file.starts_with("libcoreclr.so"))
}

/// .NET 9 and 10, whose collector gives an advice that it does not mean.
pub(super) const DOTNET_VIRTUAL_RESET: AdviceEntry = AdviceEntry {
    id: "dotnet.virtual-reset",
    what: ".NET's collector asks for MADV_DONTNEED_LOCKED where it means MADV_FREE: pages go at once",
    seen_by: "madvise(MADV_DONTNEED_LOCKED) by libcoreclr.so or libclrgc.so",
    mechanisms: &[Mechanism::Advise],
    switch: "a .NET 10 with dotnet/runtime#128605 (May 2026), or a later one; GCRetainVM has no say in it",
    why: "MADV_FREE | MADV_DONTDUMP is 24, which Linux 5.18 and later take for another advice: pages that were to stay until \
          memory is short are freed and faulted in again, and heaps were corrupted",
    source: "https://github.com/dotnet/runtime/issues/126950 https://github.com/dotnet/runtime/pull/128605",
    instead_of: &["dotnet.retain-vm"],
    look: |_, scene| {
        let is_reset = |c: &&SeenCost| c.advice.as_str() == "MADV_DONTNEED_LOCKED";
        let given = scene.given.iter().filter(is_reset);
        Sight::of_costs(given.filter(|c| c.mechanism == Mechanism::Advise && is_collector(c)))
    },
};

/// .NET's collector, which gives memory back.
pub(super) const DOTNET_RETAIN_VM: AdviceEntry = AdviceEntry {
    id: "dotnet.retain-vm",
    what: ".NET's collector gives memory back to the system, and takes it again",
    seen_by: "munmap and madvise by libcoreclr.so or libclrgc.so",
    mechanisms: &[
        Mechanism::Unmap,
        Mechanism::Advise,
        Mechanism::LockMmap,
        Mechanism::ShootdownWait,
    ],
    switch: "System.GC.RetainVM=true (DOTNET_GCRetainVM=1): memory that would be given back is kept for later use; it keeps \
             the peak",
    why: "by default segments that are no longer needed are released to the system; Microsoft's documentation names the setting, \
          and no figure",
    source: "https://learn.microsoft.com/dotnet/core/runtime-config/garbage-collector",
    instead_of: &[],
    look: |entry, scene| entry.costs(scene, is_collector),
};

fn is_compilation(cost: &SeenCost) -> bool {
    cost.is_in("libclrjit.so")
        || cost.calls_any(&["ExecutableAllocator::MapRW", "ExecutableAllocator::UnmapRW"])
}

/// .NET's compiler, which maps its code twice to write it.
pub(super) const DOTNET_WRITE_XOR_EXECUTE: AdviceEntry = AdviceEntry {
    id: "dotnet.write-xor-execute",
    what: ".NET maps code a second time to write it, for each method that it compiles",
    seen_by: "mmap, munmap and faults of shared memory below libclrjit.so or ExecutableAllocator::MapRW",
    mechanisms: &[
        Mechanism::Map,
        Mechanism::Unmap,
        Mechanism::FaultFile,
        Mechanism::LockMmap,
        Mechanism::ShootdownWait,
    ],
    switch: "DOTNET_EnableWriteXorExecute=0, where that protection may be given up; or code compiled ahead (ReadyToRun)",
    why: "no page is writable and executable at once from .NET 7 on, so that writing takes a mapping: a slower \
          Expression.Compile in .NET 7 was as fast as before with it off",
    source: "https://github.com/dotnet/runtime/issues/75891 https://github.com/dotnet/runtime/pull/54954",
    instead_of: &[],
    look: |entry, scene| {
        entry.costs_if_any(&[Mechanism::Map, Mechanism::Unmap], scene, is_compilation)
    },
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::testing::{fires_by_evidence, gives, is_quiet, recorded, scene};

    /// Check that it goes by that advice of .NET: another program that gives it may mean it.
    #[test]
    fn dotnet_reset_goes_by_evidence() {
        let by = |stack| gives("MADV_DONTNEED_LOCKED", stack);
        fires_by_evidence(
            &DOTNET_VIRTUAL_RESET,
            &by("GCToOSInterface::VirtualReset (libcoreclr.so)"),
            "dotnet",
        );
        fires_by_evidence(&DOTNET_VIRTUAL_RESET, &by("? (libclrgc.so)"), "dotnet");
        is_quiet(
            &DOTNET_VIRTUAL_RESET,
            &gives("MADV_FREE", "? (libcoreclr.so)"),
        );
        is_quiet(&DOTNET_VIRTUAL_RESET, &recorded("17-advice-24"));
    }

    /// Check that it goes by the collector's own calls.
    #[test]
    fn dotnet_retain_goes_by_evidence() {
        let stack = "munmap (libc.so.6) < ? (libclrgc.so) < ? (libclrgc.so) < ? (libcoreclr.so)";
        fires_by_evidence(
            &DOTNET_RETAIN_VM,
            &scene(&[(Mechanism::Unmap, stack)]),
            "dotnet",
        );
        let other = "munmap (libc.so.6) < deflateEnd (libz.so.1) < ? (libcoreclr.so)";
        is_quiet(&DOTNET_RETAIN_VM, &scene(&[(Mechanism::Unmap, other)]));
    }

    /// Check that it goes by mappings that the compiler makes.
    #[test]
    fn dotnet_wx_goes_by_evidence() {
        let stack = "mmap (libc.so.6) < ? (libcoreclr.so) < ? (libclrjit.so) < ? (libcoreclr.so)";
        fires_by_evidence(
            &DOTNET_WRITE_XOR_EXECUTE,
            &scene(&[(Mechanism::Map, stack)]),
            "dotnet",
        );
    }
}
