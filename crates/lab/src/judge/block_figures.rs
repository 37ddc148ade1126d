//! The figures of a block that are compared, each as one number.

use quell_stats::{Difference, median, paired_difference};

use crate::attribute::{ClassifiedBlock, ratio_ppm};

/// The seed of the intervals, so that the same rounds always give the same ones.
const INTERVAL_SEED: u64 = 5;

pub(super) fn compare_blocks(
    control: &[&ClassifiedBlock],
    arm: &[&ClassifiedBlock],
    of: fn(&ClassifiedBlock) -> f64,
) -> Difference {
    let pairs: Vec<(f64, f64)> = control
        .iter()
        .zip(arm)
        .map(|(c, a)| (of(c), of(a)))
        .collect();
    paired_difference(&pairs, INTERVAL_SEED)
}

/// All stall but for the time that other threads took, ppm.
pub(super) fn all_ppm(block: &ClassifiedBlock) -> f64 {
    let gaps: u64 = block.gaps.iter().map(|t| t.gap.ns).sum();
    ratio_ppm(gaps.saturating_sub(block.away_ns), block.ran_ns())
}

/// Stall in gaps that are too short for another thread to have run, ppm of all time: without the probe nobody can tell which
/// those are.
pub(super) fn short_ppm(block: &ClassifiedBlock) -> f64 {
    const SHORT_NS: u64 = 100_000;
    let gaps = block.gaps.iter().map(|t| t.gap.ns);
    let (short, long) = gaps.fold((0, 0), |(short, long), ns| {
        if ns < SHORT_NS {
            (short + ns, long)
        } else {
            (short, long + ns)
        }
    });
    ratio_ppm(short, (block.end_ns - block.begin_ns).saturating_sub(long))
}

/// The median length of the culprit's gaps, ns: a few long ones, of a fault that waits for a disk, would dominate the mean.
pub(super) fn median_caused_gap(blocks: &[&ClassifiedBlock]) -> Option<f64> {
    let gaps: Vec<f64> = blocks
        .iter()
        .flat_map(|b| &b.gaps)
        .filter(|t| t.caused)
        .map(|t| t.gap.ns as f64)
        .collect();
    (!gaps.is_empty()).then(|| median(&gaps))
}
