//! .NET's collector, which gives memory back.

use quell_event::Mechanism;

use crate::advice::{AdviceEntry, SeenCost, Sight};

const TOUCHED_MECHANISMS: &[Mechanism] = &[
    Mechanism::Unmap,
    Mechanism::Advise,
    Mechanism::LockMmap,
    Mechanism::ShootdownWait,
];

/// The collector's own calls; it lies in the runtime's library, or in one of its own.
pub(super) fn is_collector(cost: &SeenCost) -> bool {
    let asker = cost.asking_frame();
    asker.is_some_and(|f| f.file.starts_with("libclrgc") || f.file.starts_with("libcoreclr.so"))
}

pub(super) const ADVICE_ENTRY: AdviceEntry = AdviceEntry {
    id: "dotnet.retain-vm",
    what: ".NET's collector gives memory back to the system, and takes it again",
    seen_by: "munmap and madvise by libcoreclr.so or libclrgc.so",
    mechanisms: TOUCHED_MECHANISMS,
    switch: "System.GC.RetainVM=true (DOTNET_GCRetainVM=1): memory that would be given back is kept for later use; it keeps \
             the peak",
    why: "by default segments that are no longer needed are released to the system; Microsoft's documentation names the setting, \
          and no figure",
    source: "https://learn.microsoft.com/dotnet/core/runtime-config/garbage-collector",
    instead_of: &[],
    look: |scene| Sight::of_costs(scene.costs_of(TOUCHED_MECHANISMS, is_collector)),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::testing::{fires_by_evidence, is_quiet, scene};

    /// Check that it goes by the collector's own calls.
    #[test]
    fn goes_by_evidence() {
        let stack = "munmap (libc.so.6) < ? (libclrgc.so) < ? (libclrgc.so) < ? (libcoreclr.so)";
        fires_by_evidence(
            &ADVICE_ENTRY,
            &scene(&[(Mechanism::Unmap, stack)]),
            "dotnet",
        );
        let other = "munmap (libc.so.6) < deflateEnd (libz.so.1) < ? (libcoreclr.so)";
        is_quiet(&ADVICE_ENTRY, &scene(&[(Mechanism::Unmap, other)]));
    }
}
