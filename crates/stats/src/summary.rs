//! One number for many: median and quantile, as the reports print them.
//!
//! Run times have outliers on one side, so these are the summaries that one bad run cannot move
//! (Huber and Ronchetti, *Robust Statistics*, 2009). All take the values in any order, and give 0
//! for no values. Values that are no number are left out.

/// The middle value, or the mean of the two middle ones.
#[must_use]
pub fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

/// The value that a share `q` (0 to 1) of the values lies at or below, with straight lines between
/// the values (type 7 of Hyndman and Fan, "Sample Quantiles in Statistical Packages", 1996; the default of R
/// and NumPy).
#[must_use]
pub fn quantile(values: &[f64], q: f64) -> f64 {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|v| !v.is_nan()).collect();
    sorted.sort_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else {
        return 0.0;
    };
    let place = if q.is_nan() { 0.5 } else { q.clamp(0.0, 1.0) } * last as f64;
    let low = place.floor() as usize;
    let (a, b) = (sorted[low], sorted[(low + 1).min(last)]);
    let part = place - low as f64;
    // Two products, not `a + part * (b - a)`: the difference of two huge numbers overflows.
    if a == b {
        a
    } else {
        a * (1.0 - part) + b * part
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Check that the quantiles agree with the textbook's straight lines.
    #[test]
    fn known_quantiles() {
        let values = [4.0, 1.0, 3.0, 2.0];
        assert_eq!(median(&values), 2.5);
        assert_eq!(quantile(&values, 0.0), 1.0);
        assert_eq!(quantile(&values, 1.0), 4.0);
        assert!((quantile(&values, 0.9) - 3.7).abs() < 1e-12);
        assert_eq!(median(&[7.0]), 7.0);
        assert_eq!(median(&[]), 0.0);
    }

    proptest! {
        /// Check that a quantile lies among the values and rises with its share.
        #[test]
        fn quantiles_are_ordered(
            values in prop::collection::vec(0.0..1e300f64, 1..50),
            a in 0.0..=1.0f64,
            b in 0.0..=1.0f64,
        ) {
            let (low, high) = (quantile(&values, a.min(b)), quantile(&values, a.max(b)));
            let least = values.iter().copied().fold(f64::INFINITY, f64::min);
            let most = values.iter().copied().fold(0.0, f64::max);
            prop_assert!(low <= high * (1.0 + 1e-12));
            prop_assert!(low >= least * (1.0 - 1e-12) && high <= most * (1.0 + 1e-12));
        }

        /// Check that no input, however odd, makes a panic.
        #[test]
        fn never_panics(values in prop::collection::vec(any::<f64>(), 0..20), q in any::<f64>()) {
            let _ = quantile(&values, q);
        }
    }
}
