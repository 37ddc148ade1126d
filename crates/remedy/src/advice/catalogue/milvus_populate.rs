//! Milvus, which maps its segments.

use quell_event::Mechanism;

use crate::advice::{AdviceEntry, SeenCost, Sight};

const TOUCHED_MECHANISMS: &[Mechanism] = &[Mechanism::FaultFile, Mechanism::FaultMajor];

fn is_core(cost: &SeenCost) -> bool {
    cost.is_within("milvus::") || cost.is_in("libmilvus_core")
}

pub(super) const ADVICE_ENTRY: AdviceEntry = AdviceEntry {
    id: "milvus.populate",
    what: "Milvus faults in segments that it has mapped, page by page",
    seen_by: "faults of file pages below Milvus' core",
    mechanisms: TOUCHED_MECHANISMS,
    switch: "queryNode.mmap.populate: true (the default where it is known: January 2026 and later)",
    why: "the pages of a segment are mapped as it is loaded, and first reads of it fault no more",
    source: "https://github.com/milvus-io/milvus/pull/46761",
    instead_of: &[],
    look: |scene| Sight::of_costs(scene.costs_of(TOUCHED_MECHANISMS, is_core)),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::testing::{asleep, fires_by_evidence, scene};

    /// Check that it goes by the core's faults.
    #[test]
    fn goes_by_evidence() {
        let stack = "milvus::exec::Filter::GetOutput() (libmilvus_core.so) < milvus::query::Visit() (libmilvus_core.so)";
        let waiting = asleep(scene(&[(Mechanism::FaultMajor, stack)]));
        fires_by_evidence(&ADVICE_ENTRY, &waiting, "milvus");
    }
}
