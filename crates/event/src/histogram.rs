//! Log-linear histograms of nanoseconds, the same in the kernel and here.
//!
//! 32 steps an octave: a value is known to 1/32 of itself. A percentile is read at the middle of its
//! step and so is within 1.6 % of the true one; the maximum is kept exactly.

use serde::{Deserialize, Serialize};

/// An octave has two to this power steps.
const STEPS_LOG2: u32 = 5;
const STEPS_PER_OCTAVE: u64 = 1 << STEPS_LOG2;

/// A histogram has so many buckets: 36 octaves reach past 500 s.
pub const BUCKET_COUNT: usize = (STEPS_PER_OCTAVE * 36) as usize;

/// Returns the bucket of a value: `bucket_of` of the probe does the same in the kernel (`bpf/histogram.h`). Values beyond the last
/// bucket are counted in it.
#[must_use]
pub fn bucket_of(ns: u64) -> usize {
    if ns < STEPS_PER_OCTAVE {
        return ns as usize;
    }
    let exponent = 63 - ns.leading_zeros() - STEPS_LOG2;
    let bucket = (u64::from(exponent) << STEPS_LOG2) + (ns >> exponent);
    (bucket as usize).min(BUCKET_COUNT - 1)
}

/// Returns the lowest value of a bucket, ns.
#[must_use]
pub fn bucket_start_ns(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < 2 * STEPS_PER_OCTAVE {
        return bucket;
    }
    let exponent = (bucket >> STEPS_LOG2) - 1;
    ((bucket & (STEPS_PER_OCTAVE - 1)) + STEPS_PER_OCTAVE) << exponent
}

/// A histogram of nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Histogram {
    /// How many values each bucket has, [`BUCKET_COUNT`] of them.
    counts: Vec<u64>,
    /// Of all values, ns: exact, and not by buckets.
    sum: u64,
    /// The largest value, ns.
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            counts: vec![0; BUCKET_COUNT],
            sum: 0,
            max: 0,
        }
    }
}

impl Histogram {
    /// Adds one value, ns.
    pub fn record(&mut self, ns: u64) {
        self.counts[bucket_of(ns)] += 1;
        self.sum = self.sum.saturating_add(ns);
        self.max = self.max.max(ns);
    }

    /// Adds the counts of another histogram, such as one CPU's of the probe, and its maximum, ns. The sum of its values comes apart, by
    /// [`Self::add_sum`].
    ///
    /// Both wrap rather than overflow. No count of a real run comes near the end of 64 bits; one in a garbled file may, and must not end
    /// who reads it.
    pub fn add_counts(&mut self, counts: impl IntoIterator<Item = u64>, max: u64) {
        for (mine, theirs) in self.counts.iter_mut().zip(counts) {
            *mine = mine.wrapping_add(theirs);
        }
        self.max = self.max.max(max);
    }

    /// Adds to the sum of all values, ns.
    pub fn add_sum(&mut self, ns: u64) {
        self.sum = self.sum.wrapping_add(ns);
    }

    /// Adds another histogram.
    pub fn merge(&mut self, other: &Self) {
        self.add_counts(other.counts.iter().copied(), other.max);
        self.add_sum(other.sum);
    }

    /// Returns the values since `earlier`, a snapshot of the same histogram. The maximum is then that of the
    /// highest bucket in use, for the exact one may be from before.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let counts: Vec<u64> = self
            .counts
            .iter()
            .zip(&earlier.counts)
            .map(|(now, then)| now.saturating_sub(*then))
            .collect();
        let max = if self.max > earlier.max {
            self.max
        } else {
            let top = counts.iter().rposition(|&n| n > 0);
            top.map_or(0, |b| {
                bucket_start_ns(b + 1).saturating_sub(1).min(self.max)
            })
        };
        Self {
            counts,
            sum: self.sum.saturating_sub(earlier.sum),
            max,
        }
    }

    /// How many values there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().fold(0, |a, &n| a.wrapping_add(n))
    }

    /// The lowest value of each bucket that has any, ns, and how many.
    pub fn used_buckets(&self) -> impl Iterator<Item = (u64, u64)> {
        let counts = self.counts.iter().enumerate();
        counts
            .filter(|(_, n)| **n > 0)
            .map(|(bucket, n)| (bucket_start_ns(bucket), *n))
    }

    /// The sum of all values, ns.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// The largest value, ns.
    #[must_use]
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The value that a share `q` (0 to 1) of all values doesn't exceed, ns; 0 of an empty histogram.
    #[must_use]
    pub fn quantile(&self, q: f64) -> u64 {
        let total = self.count();
        if total == 0 {
            return 0;
        }
        let rank = ((q.clamp(0.0, 1.0) * total as f64).ceil() as u64).clamp(1, total);
        let mut seen = 0u64;
        for (bucket, &n) in self.counts.iter().enumerate() {
            seen = seen.saturating_add(n);
            if seen >= rank {
                let (low, high) = (bucket_start_ns(bucket), bucket_start_ns(bucket + 1));
                return (low + (high - low) / 2).min(self.max);
            }
        }
        self.max
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Check that buckets are consecutive: each value lies between its bucket's lowest and the next's.
    #[test]
    fn buckets_are_consecutive() {
        for bucket in 0..BUCKET_COUNT - 1 {
            assert_eq!(bucket_of(bucket_start_ns(bucket)), bucket);
            assert_eq!(bucket_of(bucket_start_ns(bucket + 1) - 1), bucket);
        }
    }

    proptest! {
        /// Check that quantiles are within 1.6 % of the exact ones and never above the maximum.
        #[test]
        fn quantiles_are_close(mut values in proptest::collection::vec(0u64..10_000_000_000, 1..200), q in 0.0f64..=1.0) {
            let mut h = Histogram::default();
            values.iter().for_each(|&v| h.record(v));
            values.sort_unstable();
            let rank = ((q * values.len() as f64).ceil() as usize).clamp(1, values.len());
            let exact = values[rank - 1];
            let got = h.quantile(q);
            prop_assert!(got.abs_diff(exact) as f64 <= exact as f64 * 0.017 + 0.5, "{got} for {exact}");
            prop_assert!(got <= h.max());
            prop_assert_eq!(h.count(), values.len() as u64);
        }

        /// Check that a histogram less an earlier snapshot is what was recorded between.
        #[test]
        fn since_is_the_difference(a in proptest::collection::vec(0u64..1_000_000, 0..50), b in proptest::collection::vec(0u64..1_000_000, 0..50)) {
            let (mut all, mut late) = (Histogram::default(), Histogram::default());
            a.iter().for_each(|&v| all.record(v));
            let then = all.clone();
            b.iter().for_each(|&v| { all.record(v); late.record(v); });
            let since = all.since(&then);
            prop_assert_eq!(since.count(), late.count());
            prop_assert_eq!(since.sum(), late.sum());
            prop_assert!(since.max() >= late.max());
        }
    }
}
