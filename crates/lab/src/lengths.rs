//! Lengths of time with the number of each: their percentiles, and their rounding, so that few are kept however many there were.

use std::collections::BTreeMap;

/// A percentile is published only if so many lengths lie beyond it.
pub(crate) const MIN_LENGTHS_BEYOND: u64 = 100;

/// The length that so many of 100,000 lie at or below; none where too few lie beyond. The rank is rounded up, so that at least
/// that share lies there.
pub(crate) fn length_percentile(lengths: &BTreeMap<u64, u64>, of_100_000: u64) -> Option<u64> {
    let total: u64 = lengths.values().sum();
    let beyond = total.saturating_mul(100_000 - of_100_000.min(100_000)) / 100_000;
    if beyond < MIN_LENGTHS_BEYOND {
        return None;
    }
    let mut seen = 0;
    let found = lengths.iter().find(|(_, n)| {
        seen += **n;
        seen >= total - beyond
    });
    found.map(|(ns, _)| *ns)
}

/// Rounds a length down to so many digits.
pub(crate) fn round_to_digits(ns: u64, digits: u32) -> u64 {
    let all = ns.checked_ilog10().unwrap_or(0) + 1;
    let step = 10_u64.pow(all.saturating_sub(digits));
    ns / step * step
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Check that three digits are never more than one in a hundred away, never above, and few in number.
        #[test]
        fn three_digits_are_near(ns in 0_u64..u64::MAX) {
            let near = round_to_digits(ns, 3);
            prop_assert!(near <= ns && (ns - near) as f64 <= ns as f64 / 100.0);
            prop_assert_eq!(round_to_digits(near, 3), near);
        }
    }
}
