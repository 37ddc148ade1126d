//! Are there enough events to say anything?
//!
//! Events that come by chance scatter by the square root of their number. Seven shootdowns against
//! three is the scatter of one and the same program from run to run.

use crate::dist::normal_cdf;
use crate::guard::FAMILY_ERROR;

/// Both sides below this in their usual run: never judged. Events come in bursts (one `munmap` in a
/// loop, one exit), so the square-root rule is too kind to a handful.
pub const MIN_COUNTS: f64 = 10.0;

/// Whether chance alone explains the difference of two total counts.
///
/// The square root of a Poisson count has variance 1/4 whatever its mean, and 3/8 added makes that
/// hold from a few events on (Anscombe, "The Transformation of Poisson, Binomial and
/// Negative-Binomial Data", 1948). So twice the difference of two roots, over √2, is a normal number.
pub(crate) fn chance_explains(before: f64, after: f64, family: usize) -> bool {
    let root = |total: f64| (total + 0.375).sqrt();
    let z = (root(after) - root(before)).abs() * std::f64::consts::SQRT_2;
    2.0 * normal_cdf(-z) > FAMILY_ERROR / family.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that a few events are explained by chance and many are not.
    #[test]
    fn few_and_many() {
        assert!(chance_explains(35.0, 15.0, 7));
        assert!(!chance_explains(3_500.0, 1_500.0, 7));
        assert!(chance_explains(5_000.0, 4_900.0, 7));
        assert!(chance_explains(0.0, 0.0, 7));
    }
}
