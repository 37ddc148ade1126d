//! .NET 9 and 10, whose collector gives an advice that it does not mean.

use quell_event::Mechanism;

use super::dotnet_retain::is_collector;
use crate::advice::{AdviceEntry, Sight};

pub(super) const ADVICE_ENTRY: AdviceEntry = AdviceEntry {
    id: "dotnet.virtual-reset",
    what: ".NET's collector asks for MADV_DONTNEED_LOCKED where it means MADV_FREE: pages go at once",
    seen_by: "madvise(MADV_DONTNEED_LOCKED) by libcoreclr.so or libclrgc.so",
    mechanisms: &[Mechanism::Advise],
    switch: "a .NET 10 with dotnet/runtime#128605 (May 2026), or a later one; GCRetainVM has no say in it",
    why: "MADV_FREE | MADV_DONTDUMP is 24, which Linux 5.18 and later take for another advice: pages that were to stay until \
          memory is short are freed and faulted in again, and heaps were corrupted",
    source: "https://github.com/dotnet/runtime/issues/126950 https://github.com/dotnet/runtime/pull/128605",
    instead_of: &["dotnet.retain-vm"],
    look: |scene| {
        let given = scene.given.iter();
        let is_reset = |advice: &str| advice == "MADV_DONTNEED_LOCKED";
        Sight::of_costs(
            given.filter(|c| {
                c.mechanism == Mechanism::Advise && is_reset(&c.advice) && is_collector(c)
            }),
        )
    },
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::testing::{fires_by_evidence, gives, is_quiet, recorded};

    /// Check that it goes by that advice of .NET: another program that gives it may mean it.
    #[test]
    fn goes_by_evidence() {
        let by = |stack| gives("MADV_DONTNEED_LOCKED", stack);
        fires_by_evidence(
            &ADVICE_ENTRY,
            &by("GCToOSInterface::VirtualReset (libcoreclr.so)"),
            "dotnet",
        );
        fires_by_evidence(&ADVICE_ENTRY, &by("? (libclrgc.so)"), "dotnet");
        is_quiet(&ADVICE_ENTRY, &gives("MADV_FREE", "? (libcoreclr.so)"));
        is_quiet(&ADVICE_ENTRY, &recorded("17-advice-24"));
    }
}
