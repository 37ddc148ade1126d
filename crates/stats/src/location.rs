//! The change in the middle of the pairs.

/// The estimate of Hodges and Lehmann ("Estimates of Location Based on Rank Tests", 1963): the median
/// of the means of every two values, each with itself as well.
///
/// The mean is moved by one outlier and the median wastes a third of few numbers; this has 95 % of
/// the mean's efficiency under Gaussian noise and bears 29 % of outliers. And it belongs to the
/// signed-rank test that the guard uses, so the two rarely disagree. `walsh` is scratch space.
pub(crate) fn hodges_lehmann(values: &[f64], walsh: &mut Vec<f64>) -> f64 {
    walsh.clear();
    for (i, a) in values.iter().enumerate() {
        walsh.extend(values[i..].iter().map(|b| 0.5 * (a + b)));
    }
    let size = walsh.len();
    if size == 0 {
        return 0.0;
    }
    let (below, &mut upper, _) = walsh.select_nth_unstable_by(size / 2, f64::total_cmp);
    if size % 2 == 1 {
        return upper;
    }
    let lower = below.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    0.5 * (lower + upper)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn middle(values: &[f64]) -> f64 {
        hodges_lehmann(values, &mut Vec::new())
    }

    /// Check that the estimate is right by hand, for odd and even numbers of means.
    #[test]
    fn by_hand() {
        assert_eq!(middle(&[]), 0.0);
        assert_eq!(middle(&[3.0]), 3.0);
        assert_eq!(middle(&[1.0, 3.0]), 2.0);
        // Means of 1, 2, 6: 1, 1.5, 3.5, 2, 4, 6; the middle ones are 2 and 3.5.
        assert_eq!(middle(&[1.0, 2.0, 6.0]), 2.75);
    }

    /// Check that an outlier moves it a little and turning the signs turns it exactly.
    #[test]
    fn robust_and_symmetric() {
        let values = [0.1, 0.12, 0.09, 0.11, 90.0];
        assert!(middle(&values) < 0.13);
        assert_eq!(middle(&values.map(|v| -v)), -middle(&values));
    }
}
