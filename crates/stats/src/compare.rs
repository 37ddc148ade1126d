//! One metric, before and after, and the honest word for it.
//!
//! A claim has to get through all of these, in this order:
//!
//! 1. every value is a number and at least 0, there are [`MIN_PAIRS`] pairs, and something differs;
//! 2. a count is large enough that chance does not explain the difference ([`MIN_COUNTS`]);
//! 3. the bootstrap interval over pairs leaves 1 out;
//! 4. the change is at least [`Rules::smallest_effect`];
//! 5. the family-wise guard ([`FAMILY_ERROR`](crate::FAMILY_ERROR)).
//!
//! So "better" means that the whole printed interval is better, and that the other steps passed as well.

use crate::counts::{MIN_COUNTS, chance_explains};
use crate::interval::{LogInterval, bootstrap_interval};
use crate::logs::Logs;
use crate::pair::{MetricKind, RunPair};
use crate::{Reason, Verdict, guard, median};

/// With fewer pairs than this nothing is claimed, however large the change.
///
/// On a machine that is in one of two modes by the toss of a coin, all runs of one side land in one
/// mode and all of the other in the other with chance 2 / 4^n: 3 % for three pairs, 0.8 % for four,
/// and that for every metric with modes of its own. The runs then look perfectly separated, and no
/// test can know better. With five pairs it is 0.2 %.
pub const MIN_PAIRS: usize = 5;

/// Log distances below this are rounding, not change.
const MAX_ROUNDING_ERROR: f64 = 1e-12;

/// How to judge a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// Confidence of the interval. Kept within 0.5 and 0.999.
    pub confidence: f64,
    /// Smaller changes are never claimed: 0.02 is 2 %, down (×0.98) or up (÷0.98).
    pub smallest_effect: f64,
    /// How many metrics are judged together in this run; see [`FAMILY_ERROR`](crate::FAMILY_ERROR).
    pub family: usize,
    /// How many times the pairs of this run may be looked at; see [`Looks`](crate::Looks). Each look has to reach
    /// a stricter level, and its interval has a higher confidence.
    pub looks: usize,
    /// Resamples of the bootstrap, at least 200. Where this is enough to count all of them out (up
    /// to 7 pairs with 2,000), that is done instead and the seed has no part in it.
    pub resamples: u32,
    /// Seed of the bootstrap. The same values and seed give the same interval.
    pub seed: u64,
    /// Whether the metric counts events or measures something.
    pub kind: MetricKind,
    /// More is better: a throughput. Otherwise less is.
    pub higher_is_better: bool,
}

impl Default for Rules {
    /// The rules of `prove` for its seven metrics.
    fn default() -> Self {
        Self {
            confidence: 0.95,
            smallest_effect: 0.02,
            family: 7,
            looks: 1,
            resamples: 2_000,
            seed: 0,
            kind: MetricKind::Measure,
            higher_is_better: false,
        }
    }
}

/// The result for one metric over all pairs.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The values without the plan, in the order of the pairs.
    pub before: Vec<f64>,
    /// The values with the plan.
    pub after: Vec<f64>,
    /// Middle of the values before.
    pub median_before: f64,
    /// Middle of the values after.
    pub median_after: f64,
    /// After over before: the middle of the ratios of the pairs, which need not be the ratio of the
    /// two medians. 1 where nothing can be said.
    pub ratio: f64,
    /// The bootstrap interval of the ratio, with the confidence of the rules in all looks together. With one pair or
    /// values that cannot be used it is 0 to infinity, which JSON has no number for.
    pub ci95: (f64, f64),
    /// The word.
    pub verdict: Verdict,
    /// Why there is no evidence; nothing where there is.
    pub reason: Option<Reason>,
}

/// Compares one metric before and after.
#[must_use]
pub fn compare_pairs(pairs: &[RunPair], rules: &Rules) -> Comparison {
    let before: Vec<f64> = pairs.iter().map(|p| p.before).collect();
    let after: Vec<f64> = pairs.iter().map(|p| p.after).collect();
    let unusable = before
        .iter()
        .chain(&after)
        .filter(|v| !v.is_finite() || **v < 0.0)
        .count();
    let (interval, claim) = if unusable > 0 {
        let reason = Reason::Unusable {
            values: unusable,
            runs: 2 * pairs.len(),
        };
        (LogInterval::NO_ESTIMATE, Err(reason))
    } else {
        let logs = Logs::new(pairs, rules.kind);
        let interval = bootstrap_interval(
            &logs.log_ratios(),
            1.0 - (1.0 - clamped_confidence(rules)) / planned_looks(rules) as f64,
            rules.resamples.max(200),
            rules.seed,
        );
        (interval, claimed_side(pairs, &logs, &interval, rules))
    };
    let (verdict, reason) = match claim {
        Ok(side) if (side > 0.0) == rules.higher_is_better => (Verdict::Better, None),
        Ok(_) => (Verdict::Worse, None),
        Err(reason) => (Verdict::NoEvidence, Some(reason)),
    };
    let (ratio, ci95) = interval.as_ratios();
    Comparison {
        median_before: median(&before),
        median_after: median(&after),
        before,
        after,
        ratio,
        ci95,
        verdict,
        reason,
    }
}

fn clamped_confidence(rules: &Rules) -> f64 {
    if rules.confidence.is_nan() {
        0.95
    } else {
        rules.confidence.clamp(0.5, 0.999)
    }
}

fn planned_looks(rules: &Rules) -> usize {
    rules.looks.max(1)
}

/// The side of a change that may be claimed, or why there is none.
fn claimed_side(
    pairs: &[RunPair],
    logs: &Logs,
    at: &LogInterval,
    rules: &Rules,
) -> Result<f64, Reason> {
    let n = pairs.len();
    if n < MIN_PAIRS {
        return Err(Reason::TooFewPairs {
            pairs: n,
            needed: MIN_PAIRS,
        });
    }
    if pairs.iter().all(|p| p.before == 0.0 && p.after == 0.0) {
        return Err(Reason::AllZero { runs: 2 * n });
    }
    let differences = logs.log_ratios();
    if differences.iter().all(|d| d.abs() <= MAX_ROUNDING_ERROR) {
        return Err(Reason::NoDifference { pairs: n });
    }
    if rules.kind == MetricKind::Count {
        enough_counts(pairs, rules.family * planned_looks(rules))?;
    }
    let (ratio, (low, high)) = at.as_ratios();
    let smallest = rules.smallest_effect.clamp(0.0, 0.99);
    let least = -(1.0 - smallest).ln();
    if at.low <= MAX_ROUNDING_ERROR && at.high >= -MAX_ROUNDING_ERROR {
        return Err(if at.low > -least && at.high < least {
            Reason::NoChange {
                low,
                high,
                smallest,
            }
        } else {
            zeros_reason(pairs, rules.kind).unwrap_or(Reason::SpansOne {
                low,
                high,
                confidence: clamped_confidence(rules),
            })
        });
    }
    if at.middle.abs() < least {
        return Err(Reason::TooSmall { ratio, smallest });
    }
    let side = at.middle.signum();
    let family = rules.family.max(1);
    let finding = guard::judge_change(logs, side, family * planned_looks(rules));
    if finding.is_significant() {
        return Ok(side);
    }
    let against = differences.iter().filter(|d| **d * side <= 0.0).count();
    Err(zeros_reason(pairs, rules.kind).unwrap_or(if against > 0 {
        Reason::PairsDisagree { against, pairs: n }
    } else {
        Reason::Chance {
            p: finding.p,
            level: finding.level,
            family,
            looks: planned_looks(rules),
        }
    }))
}

fn enough_counts(pairs: &[RunPair], family: usize) -> Result<(), Reason> {
    let before: Vec<f64> = pairs.iter().map(|p| p.before).collect();
    let after: Vec<f64> = pairs.iter().map(|p| p.after).collect();
    let (all_before, all_after) = (before.iter().sum(), after.iter().sum());
    let few = median(&before).max(median(&after)) < MIN_COUNTS;
    if few || chance_explains(all_before, all_after, family) {
        return Err(Reason::TooFewCounts {
            before: all_before,
            after: all_after,
        });
    }
    Ok(())
}

/// The reason that names zeros in a measure, where zeros are the likely cause of a claim that failed.
fn zeros_reason(pairs: &[RunPair], kind: MetricKind) -> Option<Reason> {
    let before = pairs.iter().filter(|p| p.before == 0.0).count();
    let after = pairs.iter().filter(|p| p.after == 0.0).count();
    (kind == MetricKind::Measure && before + after > 0).then_some(Reason::ZeroRuns {
        before,
        after,
        pairs: pairs.len(),
    })
}
