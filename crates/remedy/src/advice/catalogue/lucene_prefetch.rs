//! Lucene, which calls mincore(2) to see whether pages are there before it has them read.

use quell_event::Mechanism;

use crate::advice::{AdviceEntry, Sight};

const TOUCHED_MECHANISMS: &[Mechanism] = &[Mechanism::Inspect, Mechanism::LockMmap];

pub(super) const ADVICE_ENTRY: AdviceEntry = AdviceEntry {
    id: "lucene.prefetch",
    what: "each prefetch asks by mincore(2) whether the pages are in memory",
    seen_by: "time in mincore and in waits for the lock below isLoaded0 of libnio.so",
    mechanisms: TOUCHED_MECHANISMS,
    switch: "a Lucene that has apache/lucene#15585 (merged in January 2026: one counter for all clones of an input, after which \
             it no longer asks), or a Directory whose prefetch does nothing",
    why: "the check costs as much as the madvise it would spare, and many thousand cycles each time: it showed in profiles of \
          Elasticsearch where all was in memory",
    source: "https://github.com/apache/lucene/pull/14156 https://github.com/apache/lucene/pull/15585",
    instead_of: &[],
    look: |scene| {
        Sight::of_costs(scene.costs_of(TOUCHED_MECHANISMS, |cost| cost.is_within("_isLoaded0")))
    },
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::testing::{fires_by_evidence, scene};

    /// Check that it goes by Java's isLoaded.
    #[test]
    fn goes_by_evidence() {
        let stack =
            "mincore (libc.so.6) < Java_java_nio_MappedMemoryUtils_isLoaded0 (libnio.so) < ? < ?";
        fires_by_evidence(
            &ADVICE_ENTRY,
            &scene(&[(Mechanism::Inspect, stack)]),
            "java",
        );
    }
}
