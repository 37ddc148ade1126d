//! Shared arenas of Java that are closed one by one.

use quell_event::Mechanism;

use crate::advice::{AdviceEntry, SeenCost, Sight};

const TOUCHED_MECHANISMS: &[Mechanism] = &[
    Mechanism::Unmap,
    Mechanism::Map,
    Mechanism::LockMmap,
    Mechanism::ShootdownWait,
];

/// Java's own mapping and unmapping of a file.
fn of_files(cost: &SeenCost) -> bool {
    cost.is_within("_unmap0") || cost.is_within("_map0")
}

pub(super) const ADVICE_ENTRY: AdviceEntry = AdviceEntry {
    id: "java.arena-close",
    what: "Java unmaps files one by one",
    seen_by: "unmaps below unmap0 of libnio.so, with the maps of map0",
    mechanisms: TOUCHED_MECHANISMS,
    switch: "one shared Arena for all files that live equally long (a segment's), closed once (Lucene does so since July 2024); or \
             Arena.ofAuto, which the collector unmaps",
    why: "closing a shared arena also stops every thread for a handshake and deoptimizes its topmost frame, which is in no \
          figure of the kernel: with one arena for 16 files a case's readers did 1.4 times the work, without closing 2.1 times",
    source: "https://github.com/apache/lucene/pull/13570 https://github.com/dacapobench/dacapobench/issues/264",
    instead_of: &[],
    look: |scene| {
        let unmaps = [Mechanism::Unmap];
        scene
            .costs_of(&unmaps, |cost| cost.is_within("_unmap0"))
            .next()?;
        Sight::of_costs(scene.costs_of(TOUCHED_MECHANISMS, of_files))
    },
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::testing::{fires, fires_by_evidence, recorded, scene};

    /// Check that the code that unmaps closed arenas fires it.
    #[test]
    fn fires_on_arenas() {
        let advised = fires(&ADVICE_ENTRY, &recorded("19-java-arena-close"));
        assert!(advised.place.contains("unmap0 (libnio.so)"), "{advised:?}");
    }

    /// Check that it goes by Java's unmapping of files.
    #[test]
    fn goes_by_evidence() {
        let stack =
            "munmap (libc.so.6) < Java_sun_nio_ch_UnixFileDispatcherImpl_unmap0 (libnio.so) < ?";
        fires_by_evidence(&ADVICE_ENTRY, &scene(&[(Mechanism::Unmap, stack)]), "java");
    }
}
