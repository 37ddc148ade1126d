//! Values on the scale where a change is a difference.
//!
//! Noise in run times and counts grows with their size, and "half as many" means the same for ten
//! and for a million. So everything is judged on logarithms, where a ratio is a difference and the
//! way down is as long as the way up. Only 0 needs a rule of its own, because it has no logarithm.

use crate::{MetricKind, RunPair, median};

/// The logarithms of both sides, in the order of the pairs.
#[derive(Clone, Debug)]
pub(crate) struct Logs {
    pub before: Vec<f64>,
    pub after: Vec<f64>,
}

impl Logs {
    /// Takes logarithms; every value must be finite and at least 0.
    pub(crate) fn new(pairs: &[RunPair], kind: MetricKind) -> Self {
        let log: Box<dyn Fn(f64) -> f64> = match kind {
            // Half an event more on both sides: 0 against 3 becomes 0.5 against 3.5, and the bias
            // of a log ratio of Poisson counts is least so (Haldane 1956, Anscombe 1956).
            MetricKind::Count => Box::new(|v| (v + 0.5).ln()),
            MetricKind::Measure => {
                let least = log_of_zero(pairs);
                Box::new(move |v| if v > 0.0 { v.ln() } else { least })
            }
        };
        Self {
            before: pairs.iter().map(|p| log(p.before)).collect(),
            after: pairs.iter().map(|p| log(p.after)).collect(),
        }
    }

    /// The log ratio of every pair.
    pub(crate) fn log_ratios(&self) -> Vec<f64> {
        self.after
            .iter()
            .zip(&self.before)
            .map(|(a, b)| a - b)
            .collect()
    }
}

/// The value that stands for the logarithm of 0 in a measure: a thousandth of the usual value, and less than
/// every value that is there. It must not depend on the unit, so no fixed number will do.
fn log_of_zero(pairs: &[RunPair]) -> f64 {
    let logs: Vec<f64> = pairs
        .iter()
        .flat_map(|p| [p.before, p.after])
        .filter(|v| *v > 0.0)
        .map(f64::ln)
        .collect();
    if logs.is_empty() {
        return 0.0;
    }
    let least = logs.iter().copied().fold(f64::INFINITY, f64::min);
    (median(&logs) - 1_000f64.ln()).min(least - 2f64.ln())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that 0 lies below every measured value, whatever the unit.
    #[test]
    fn zero_is_least() {
        for scale in [1e-300, 1.0, 1e300] {
            let pairs = [
                RunPair::new(0.0, 5.0 * scale),
                RunPair::new(0.000_1 * scale, 5.0 * scale),
            ];
            let logs = Logs::new(&pairs, MetricKind::Measure);
            assert!(logs.before[0] < logs.before[1]);
            assert!(logs.before[0].is_finite());
            assert!((logs.before[1] - logs.before[0] - 2f64.ln()).abs() < 1e-9);
        }
    }

    /// Check that two zeros differ by nothing.
    #[test]
    fn zeros() {
        for kind in [MetricKind::Count, MetricKind::Measure] {
            let logs = Logs::new(&[RunPair::new(0.0, 0.0)], kind);
            assert_eq!(logs.log_ratios(), [0.0]);
        }
    }
}
