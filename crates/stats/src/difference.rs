//! The difference between two values that were measured together. It serves metrics that may be zero, where a ratio says
//! nothing: "no shootdowns before, a thousand after".

use crate::interval::bootstrap_interval;

/// The middle of the differences of pairs, with its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Difference {
    /// After minus before: the Hodges-Lehmann estimate over the pairs.
    pub difference: f64,
    /// The bootstrap interval, 95 %; infinite with fewer than two pairs.
    pub ci95: (f64, f64),
    /// In how many pairs the second value was larger.
    pub larger: usize,
    /// How many pairs there were.
    pub pairs: usize,
}

/// The number of resamples that are drawn where all of them are too many to count.
const DRAWN_RESAMPLES: u32 = 4000;

/// Compares the second values of pairs with the first. Pairs with a value that is no number are left out. The same
/// seed gives the same interval.
#[must_use]
pub fn paired_difference(pairs: &[(f64, f64)], seed: u64) -> Difference {
    let differences: Vec<f64> = pairs
        .iter()
        .map(|(before, after)| after - before)
        .filter(|d| d.is_finite())
        .collect();
    let interval = bootstrap_interval(&differences, 0.95, DRAWN_RESAMPLES, seed);
    Difference {
        difference: interval.middle,
        ci95: (interval.low, interval.high),
        larger: differences.iter().filter(|d| **d > 0.0).count(),
        pairs: differences.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that a clear difference is found with its sign, that none has an interval around zero, and that the order
    /// of the two sides only turns the sign.
    #[test]
    fn differences_are_told() {
        let pairs: Vec<_> = (0..8)
            .map(|i| (f64::from(i), 100.0 + f64::from(i * 2)))
            .collect();
        let d = paired_difference(&pairs, 1);
        assert!(d.ci95.0 > 95.0 && d.ci95.1 < 115.0, "{d:?}");
        assert_eq!((d.larger, d.pairs), (8, 8));
        let turned: Vec<_> = pairs.iter().map(|&(a, b)| (b, a)).collect();
        assert!((paired_difference(&turned, 1).difference + d.difference).abs() < 1e-9);
        let noise: Vec<_> = (0..8)
            .map(|i| (5.0, 5.0 + f64::from(i % 3) - 1.0))
            .collect();
        let d = paired_difference(&noise, 1);
        assert!(d.ci95.0 <= 0.0 && d.ci95.1 >= 0.0, "{d:?}");
    }

    /// Check that equal values give an interval of no width at zero, and that nothing and one pair give no claim.
    #[test]
    fn few_and_equal() {
        let d = paired_difference(&[(3.0, 3.0); 6], 1);
        assert_eq!((d.difference, d.ci95), (0.0, (0.0, 0.0)));
        assert_eq!(
            paired_difference(&[(0.0, 9.0)], 1).ci95.0,
            f64::NEG_INFINITY
        );
        assert_eq!(paired_difference(&[], 1).pairs, 0);
        assert_eq!(
            paired_difference(&[(f64::NAN, 1.0), (0.0, f64::INFINITY)], 1).pairs,
            0
        );
    }
}
