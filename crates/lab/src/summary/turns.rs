//! The sums of blocks: the lengths of turns, their percentiles, and the block that a picture shows.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::attribute::{ClassifiedBlock, GapClass};
use crate::lengths::{length_percentile, round_to_digits};

/// Percentiles that are published where there are enough samples, of 100,000.
const TURN_PERCENTILES: [(&str, u64); 6] = [
    ("p50", 50_000),
    ("p90", 90_000),
    ("p99", 99_000),
    ("p999", 99_900),
    ("p9999", 99_990),
    ("p99999", 99_999),
];

/// Bound of the gaps and of the operations of a timeline.
const MAX_TIMELINE_ENTRIES: usize = 4000;

/// The lengths of turns and their number, over all blocks: gaps are turns too, but for those in which another thread ran.
pub(super) fn turn_lengths(blocks: &[&ClassifiedBlock]) -> BTreeMap<u64, u64> {
    let mut turns: BTreeMap<u64, u64> = BTreeMap::new();
    for block in blocks {
        for (ns, n) in &block.turns {
            *turns.entry(*ns).or_default() += n;
        }
        for told in block.gaps.iter().filter(|t| t.class != GapClass::Sched) {
            *turns.entry(told.gap.ns).or_default() += 1;
        }
    }
    turns
}

pub(super) fn turn_percentiles(turns: &BTreeMap<u64, u64>) -> BTreeMap<String, u64> {
    let told = TURN_PERCENTILES.iter();
    told.filter_map(|(name, of)| Some(((*name).to_owned(), length_percentile(turns, *of)?)))
        .collect()
}

/// Rounds lengths down to two digits, so that a histogram has some hundred bars.
pub(super) fn turn_histogram(turns: &BTreeMap<u64, u64>) -> Vec<(u64, u64)> {
    let mut out: BTreeMap<u64, u64> = BTreeMap::new();
    for (ns, n) in turns {
        *out.entry(round_to_digits(*ns, 2)).or_default() += n;
    }
    out.into_iter().collect()
}

/// The block that a picture shows.
#[derive(Default)]
pub(super) struct BlockTimeline {
    /// Begin and length of each gap, its class, whether the culprit caused it.
    pub(super) gaps: Vec<(u64, u64, GapClass, bool)>,
    /// The number of gaps of the block, where those that are kept were chosen among all of them.
    pub(super) of: Option<u64>,
    /// Begin and end of each operation.
    pub(super) ops: Vec<(u64, u64)>,
}

/// The gaps and operations of the block whose stall is the median: a typical one, not the best. Of too many the first are kept.
/// Where the whole block has to be seen, because its one operation lies somewhere in it, the culprit's gaps are kept, and of the
/// others the longest.
pub(super) fn median_timeline(blocks: &[&ClassifiedBlock], whole: bool) -> BlockTimeline {
    let mut by_stall: Vec<&&ClassifiedBlock> = blocks.iter().collect();
    by_stall.sort_by_key(|b| b.caused_ns());
    let Some(block) = by_stall.get(by_stall.len() / 2) else {
        return BlockTimeline::default();
    };
    let since = |ns: u64| ns.saturating_sub(block.begin_ns);
    let mut gaps: Vec<_> = block
        .gaps
        .iter()
        .map(|t| (since(t.gap.begin_ns), t.gap.ns, t.class, t.caused))
        .collect();
    let of = (whole && gaps.len() > MAX_TIMELINE_ENTRIES)
        .then(|| u64::try_from(gaps.len()).unwrap_or(u64::MAX));
    if of.is_some() {
        gaps.sort_by_key(|(_, ns, _, caused)| Reverse((*caused, *ns)));
    }
    gaps.truncate(MAX_TIMELINE_ENTRIES);
    gaps.sort_by_key(|gap| gap.0);
    let ops = block.ops.iter().take(MAX_TIMELINE_ENTRIES);
    BlockTimeline {
        gaps,
        of,
        ops: ops
            .map(|op| (since(op.begin_ns), since(op.end_ns)))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::attribute::ClassifiedGap;
    use crate::block::VictimGap;
    use crate::lengths::MIN_LENGTHS_BEYOND;

    /// Check that of too many gaps the first are kept, or, where the whole block has to be seen, the culprit's and the
    /// longest, in the order in which they came, with how many there were.
    #[test]
    fn timeline_of_a_noisy_block() {
        let many = 2 * MAX_TIMELINE_ENTRIES as u64;
        // the last is the culprit's, and the shortest
        let gaps = (0..many).map(|i| ClassifiedGap {
            gap: VictimGap {
                begin_ns: 100 + i * 10,
                ns: many - i,
            },
            class: GapClass::None,
            caused: i == many - 1,
            by: 0,
        });
        let block = ClassifiedBlock {
            begin_ns: 100,
            gaps: gaps.collect(),
            ..ClassifiedBlock::default()
        };
        let first = median_timeline(&[&block], false);
        assert_eq!((first.gaps.len(), first.of), (MAX_TIMELINE_ENTRIES, None));
        assert_eq!(
            first.gaps.last().map(|g| g.0),
            Some((MAX_TIMELINE_ENTRIES as u64 - 1) * 10)
        );
        let whole = median_timeline(&[&block], true);
        assert_eq!(
            (whole.gaps.len(), whole.of),
            (MAX_TIMELINE_ENTRIES, Some(many))
        );
        assert!(whole.gaps.is_sorted_by_key(|g| g.0));
        assert_eq!(
            whole.gaps.last(),
            Some(&((many - 1) * 10, 1, GapClass::None, true))
        );
        assert_eq!(
            whole.gaps[MAX_TIMELINE_ENTRIES - 2].0,
            (MAX_TIMELINE_ENTRIES as u64 - 2) * 10
        );
    }

    proptest! {
        /// Check that a percentile is a length that occurs, that at least its share lies at or below it, and that none is
        /// told that fewer than 100 turns lie beyond.
        #[test]
        fn percentiles_hold(turns in prop::collection::btree_map(1_u64..1_000_000, 1_u64..100_000, 1..50)) {
            let total: u64 = turns.values().sum();
            let told = turn_percentiles(&turns);
            for (name, of) in TURN_PERCENTILES {
                let beyond = total * (100_000 - of);
                let Some(at) = told.get(name) else {
                    prop_assert!(beyond < MIN_LENGTHS_BEYOND * 100_000);
                    continue;
                };
                let below: u64 = turns.range(..=at).map(|(_, n)| n).sum();
                prop_assert!(turns.contains_key(at));
                prop_assert!(below * 100_000 >= total * of);
                prop_assert!(beyond >= MIN_LENGTHS_BEYOND * 100_000);
            }
            prop_assert_eq!(turn_histogram(&turns).iter().map(|(_, n)| n).sum::<u64>(), total);
        }
    }
}
