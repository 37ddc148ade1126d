//! Programs that have gperftools' tcmalloc give all of its free memory back.

use quell_event::Mechanism;

use crate::advice::{AdviceEntry, Sight};

const TOUCHED_MECHANISMS: &[Mechanism] = &[
    Mechanism::Advise,
    Mechanism::LockMmap,
    Mechanism::ShootdownWait,
];

/// The functions that a program calls for this, in C and C++.
const RELEASE_FUNCTIONS: &[&str] = &[
    "MallocExtension_ReleaseFreeMemory",
    "MallocExtension_ReleaseToSystem",
    "MallocExtension::ReleaseFreeMemory",
    "MallocExtension::ReleaseToSystem",
    "TCMallocImplementation::ReleaseToSystem",
];

pub(super) const ADVICE_ENTRY: AdviceEntry = AdviceEntry {
    id: "tcmalloc.release",
    what: "the program has tcmalloc give its free memory back, span by span under the lock of its page heap",
    seen_by: "madvise below ReleaseFreeMemory or ReleaseToSystem of gperftools",
    mechanisms: TOUCHED_MECHANISMS,
    switch: "call ReleaseToSystem with some MB at a time, or never; TCMALLOC_RELEASE_RATE has no say in it, \
             TCMALLOC_DISABLE_MEMORY_RELEASE=1 stops it, which quell prove tries",
    why: "each span is one madvise, and whoever needs memory waits for the lock: 2 GB took 0.09 to 0.18 s; a case did 2.5 times \
          the work without",
    source: "https://github.com/gperftools/gperftools/issues/754",
    instead_of: &[],
    look: |scene| {
        Sight::of_costs(
            scene.costs_of(TOUCHED_MECHANISMS, |cost| cost.calls_any(RELEASE_FUNCTIONS)),
        )
    },
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::testing::{fires, fires_by_evidence, recorded, scene};

    /// Check that a program's own releases fire it.
    #[test]
    fn fires_on_releases() {
        fires(&ADVICE_ENTRY, &recorded("01-gperftools-release"));
    }

    /// Check that it goes by the release, by the C interface too.
    #[test]
    fn goes_by_evidence() {
        let stack = "madvise (libc.so.6) < TCMalloc_SystemRelease(void*, unsigned long) (libtcmalloc.so.4) < \
                     MallocExtension_ReleaseFreeMemory (libtcmalloc.so.4) < idle (tserver)";
        fires_by_evidence(
            &ADVICE_ENTRY,
            &scene(&[(Mechanism::Advise, stack)]),
            "tserver",
        );
    }
}
