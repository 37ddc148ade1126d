//! The bootstrap interval over pairs.
//!
//! Resample the pairs with replacement, estimate each resample's change, and take the middle 95 % of
//! the estimates (Efron and Tibshirani, *An Introduction to the Bootstrap*, 1993, chapter 13). With
//! five pairs that holds the truth in less than 88 % of cases (a test below shows it), so the ends
//! are moved away from the estimate by a factor, 1.58 for five pairs and 1.10 for twenty. This is
//! the correction for small samples of Hesterberg ("What Teachers Should Know About the Bootstrap",
//! 2015), used on the distance and not on the percentile. The others do not serve for few pairs:
//!
//! * no percentile of any kind, BCa among them, can lie outside the pairs, and five pairs have the
//!   truth between the least and the largest in 15 of 16 cases at most. Moving the percentile,
//!   as Hesterberg does, ends at the same wall;
//! * the studentized bootstrap divides by the scatter of each resample, and with five pairs many
//!   resamples have hardly any: its ends are anywhere.
//!
//! How often the interval holds the true ratio, in per cent, for the wall time of the simulated
//! machines in `tests/sim` (3,000 runs, 750 from 10 pairs on; `examples/calibrate.rs` prints it):
//!
//! | noise | 3 pairs | 5 | 7 | 10 | 20 |
//! | --- | --- | --- | --- | --- | --- |
//! | bell curve | 94.3 | 96.3 | 95.6 | 95.3 | 96.1 |
//! | bell curve, metrics apart | 93.8 | 96.0 | 97.0 | 96.3 | 94.5 |
//! | heavy tails (t with 2 degrees) | 95.0 | 97.0 | 96.8 | 96.5 | 94.8 |
//! | skewed | 97.3 | 97.9 | 96.7 | 96.0 | 96.3 |
//! | one run in ten twice as long | 96.9 | 97.2 | 97.0 | 96.4 | 95.3 |
//! | two modes | 95.8 | 97.2 | 98.7 | 99.5 | 99.1 |
//! | a neighbour comes and goes | 96.9 | 97.8 | 98.1 | 97.9 | 96.4 |
//! | a job every other run | 100 | 100 | 100 | 100 | 100 |
//! | drift | 96.2 | 96.6 | 96.6 | 96.3 | 96.4 |
//! | all of it (busy) | 96.9 | 97.7 | 97.3 | 97.1 | 97.1 |

use crate::Rng;
use crate::dist::{normal_critical, student_critical};
use crate::location::hodges_lehmann;

/// An estimate with its interval, on the log scale.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LogInterval {
    pub middle: f64,
    pub low: f64,
    pub high: f64,
}

impl LogInterval {
    /// Where nothing can be said: no change, and everything is possible.
    pub(crate) const NO_ESTIMATE: Self = Self {
        middle: 0.0,
        low: f64::NEG_INFINITY,
        high: f64::INFINITY,
    };

    /// The ratio and its interval. A double holds ratios up to e^709; the ratio itself is kept
    /// finite, and the interval goes to 0 or infinity on its far side only.
    pub(crate) fn as_ratios(&self) -> (f64, (f64, f64)) {
        let far = 700.0;
        (
            self.middle.clamp(-far, far).exp(),
            (self.low.min(far).exp(), self.high.max(-far).exp()),
        )
    }
}

/// Estimates the middle of the differences and the interval around it.
pub(crate) fn bootstrap_interval(
    differences: &[f64],
    confidence: f64,
    resamples: u32,
    seed: u64,
) -> LogInterval {
    let n = differences.len();
    let mut walsh = Vec::new();
    let middle = hodges_lehmann(differences, &mut walsh);
    if n < 2 {
        return LogInterval {
            middle,
            ..LogInterval::NO_ESTIMATE
        };
    }
    let mut drawn = if count_resamples(n) <= f64::from(resamples) {
        every_resample(differences, &mut walsh)
    } else {
        random_resamples(differences, resamples, seed, &mut walsh)
    };
    drawn.sort_by(|a, b| a.0.total_cmp(&b.0));
    let tail = 0.5 * (1.0 - confidence);
    let low = weighted_quantile(drawn.iter(), tail).min(middle);
    let high = weighted_quantile(drawn.iter().rev(), tail).max(middle);
    let widen = widening_factor(n, confidence);
    LogInterval {
        middle,
        low: middle - widen * (middle - low),
        high: middle + widen * (high - middle),
    }
}

/// How much further out the ends lie than the plain percentiles: Student's t over the normal number
/// because n - 1 degrees of freedom leave the noise uncertain, and √(n / (n - 1)) because a resample
/// scatters around the middle of the sample, which lies nearer to its values than the truth.
fn widening_factor(n: usize, confidence: f64) -> f64 {
    let p = 1.0 - confidence;
    let degrees = n as f64 - 1.0;
    student_critical(p, n - 1) / normal_critical(p) * (n as f64 / degrees).sqrt()
}

/// How many different resamples n values have: C(2n - 1, n).
fn count_resamples(n: usize) -> f64 {
    (1..n).fold(1.0, |ways, i| ways * (n + i) as f64 / i as f64)
}

/// Every resample with its chance. With seven pairs there are 1,716: counting them out is quicker
/// than drawing thousands and leaves no luck in the interval (Fisher and Hall, "Bootstrap algorithms
/// for small samples", 1991).
fn every_resample(values: &[f64], walsh: &mut Vec<f64>) -> Vec<(f64, f64)> {
    let n = values.len();
    let all: f64 = (1..=n).map(|i| i as f64 / n as f64).product();
    let mut out = Vec::new();
    let mut chosen = Vec::with_capacity(n);
    extend_resample(values, all, &mut chosen, walsh, &mut out);
    out
}

/// Adds every way to fill `chosen` up with `values`, in order. `chance` is n! / n^n over the
/// factorials of how often each value so far was taken.
fn extend_resample(
    values: &[f64],
    chance: f64,
    chosen: &mut Vec<f64>,
    walsh: &mut Vec<f64>,
    out: &mut Vec<(f64, f64)>,
) {
    let room = chosen.capacity() - chosen.len();
    if room == 0 {
        out.push((hodges_lehmann(chosen, walsh), chance));
        return;
    }
    let Some((&value, rest)) = values.split_first() else {
        return;
    };
    let kept = chosen.len();
    let mut chance = chance;
    for times in 0..=room {
        if times > 0 {
            chance /= times as f64;
            chosen.push(value);
        }
        extend_resample(rest, chance, chosen, walsh, out);
    }
    chosen.truncate(kept);
}

fn random_resamples(
    values: &[f64],
    resamples: u32,
    seed: u64,
    walsh: &mut Vec<f64>,
) -> Vec<(f64, f64)> {
    let mut rng = Rng::new(seed);
    let mut chosen = vec![0.0; values.len()];
    let chance = 1.0 / f64::from(resamples);
    (0..resamples)
        .map(|_| {
            chosen.fill_with(|| values[rng.below(values.len())]);
            (hodges_lehmann(&chosen, walsh), chance)
        })
        .collect()
}

/// The first value at which the chances have added up to `p`. Taken from both ends it is the same
/// rule, so turning the signs turns the interval and nothing else.
fn weighted_quantile<'a>(from_end: impl Iterator<Item = &'a (f64, f64)>, p: f64) -> f64 {
    let mut sum = 0.0;
    let mut at = 0.0;
    for (value, chance) in from_end {
        sum += chance;
        at = *value;
        if sum >= p {
            break;
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that the counted resamples are all there and their chances add up to 1.
    #[test]
    fn every_resample_once() {
        for n in 2..=7usize {
            let values: Vec<f64> = (0..n).map(|i| (i * i) as f64).collect();
            let all = every_resample(&values, &mut Vec::new());
            assert_eq!(all.len() as f64, count_resamples(n).round());
            let sum: f64 = all.iter().map(|r| r.1).sum();
            assert!((sum - 1.0).abs() < 1e-12);
        }
    }

    /// Check that drawn resamples come near to the counted ones.
    #[test]
    fn drawn_like_counted() {
        let values = [0.3, -0.1, 0.2, 0.5, 0.0, 0.25];
        let counted = bootstrap_interval(&values, 0.95, 2_000, 1);
        let drawn = bootstrap_interval(&values, 0.95, 461, 1);
        assert!(
            (counted.low - drawn.low).abs() < 0.1,
            "{counted:?} {drawn:?}"
        );
        assert!(
            (counted.high - drawn.high).abs() < 0.1,
            "{counted:?} {drawn:?}"
        );
    }

    /// Check that the interval is about as wide as Student's where the numbers scatter like a bell.
    #[test]
    fn near_student() {
        let values: Vec<f64> = (0..20)
            .map(|i| (f64::from(i) + 0.5) / 20.0)
            .map(|u| (u / (1.0 - u)).ln())
            .collect();
        let squares: f64 = values.iter().map(|v| v * v).sum();
        let student = 2.093 * (squares / 19.0 / 20.0).sqrt();
        let got = bootstrap_interval(&values, 0.95, 4_000, 3);
        assert!((got.high / student - 1.0).abs() < 0.15, "{got:?} {student}");
    }

    /// Check that the plain percentiles of five pairs fall far short of 95 %, and that the widened
    /// interval does not.
    #[test]
    fn widening_is_needed() {
        let mut rng = Rng::new(5);
        let (mut plain, mut widened) = (0, 0);
        for _ in 0..2_000 {
            // Twelve even numbers added up are a bell curve with variance 1.
            let values: Vec<f64> = (0..5)
                .map(|_| (0..12).map(|_| rng.next_unit()).sum::<f64>() - 6.0)
                .collect();
            let wide = bootstrap_interval(&values, 0.95, 2_000, 0);
            let by = widening_factor(5, 0.95);
            let narrow = |end: f64| wide.middle + (end - wide.middle) / by;
            plain += u32::from(narrow(wide.low) <= 0.0 && 0.0 <= narrow(wide.high));
            widened += u32::from(wide.low <= 0.0 && 0.0 <= wide.high);
        }
        assert!(plain < 1_760, "{plain}");
        assert!(widened > 1_880, "{widened}");
    }

    /// Check that the same seed gives the same interval, and one value an endless one.
    #[test]
    fn seeded_and_endless() {
        let values: Vec<f64> = (0..30).map(|i| f64::from(i % 7)).collect();
        assert_eq!(
            bootstrap_interval(&values, 0.95, 500, 9),
            bootstrap_interval(&values, 0.95, 500, 9)
        );
        let one = bootstrap_interval(&[1.0], 0.95, 500, 9);
        assert_eq!((one.low, one.high), (f64::NEG_INFINITY, f64::INFINITY));
    }
}
