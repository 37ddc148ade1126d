//! Go 1.21's runtime, which had huge pages made.

use quell_event::Mechanism;

use crate::advice::{AdviceEntry, Sight};

const TOUCHED_MECHANISMS: &[Mechanism] = &[
    Mechanism::Collapse,
    Mechanism::CompactDirect,
    Mechanism::ReclaimDirect,
];

pub(super) const ADVICE_ENTRY: AdviceEntry = AdviceEntry {
    id: "go.collapse",
    what: "Go's runtime has huge pages made by madvise(MADV_COLLAPSE), with the lock of its heap held",
    seen_by: "madvise(MADV_COLLAPSE), with the reclaim and compaction in it, below Go's runtime",
    mechanisms: TOUCHED_MECHANISMS,
    switch: "build with Go 1.21.4 or later, whose runtime no longer asks for it",
    why: "such a call may reclaim and compact memory before it returns, and every goroutine that allocates waits: seen in \
          production with Go 1.21",
    source: "https://github.com/golang/go/issues/63334",
    instead_of: &[],
    look: |scene| {
        Sight::of_costs(scene.costs_of(TOUCHED_MECHANISMS, |cost| {
            cost.calls_any(&[
                "runtime.sysHugePageCollapse",
                "runtime.sysHugePageCollapseOS",
            ])
        }))
    },
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::testing::{fires_by_evidence, scene};

    /// Check that it goes by the runtime's call.
    #[test]
    fn goes_by_evidence() {
        let stack = "runtime.madvise.abi0 (api) < runtime.sysHugePageCollapseOS (api) < runtime.sysHugePageCollapse (api)";
        fires_by_evidence(
            &ADVICE_ENTRY,
            &scene(&[(Mechanism::Collapse, stack)]),
            "api",
        );
    }
}
