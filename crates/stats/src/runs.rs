//! A few whole runs of one side against a few of the other: `quell lab compare` claims by this test.

use std::cmp::Ordering;

use crate::guard::FAMILY_ERROR;
use crate::separation::separation_test;

/// With fewer runs of a side nothing is known of their scatter.
pub const MIN_RUNS: usize = 2;

/// Whether `b` lies above or below `a`, where that can be claimed; `family` is the number of such questions in one comparison.
///
/// Two conditions must hold, as where `prove` has few pairs: every run of one side lies beyond every run of the other, and
/// Student's t, with one variance for both sides, reaches [`FAMILY_ERROR`] / family. The scatter within
/// a run does not count: runs differ by more than that (placement of memory, the host, other programs).
///
/// With two runs a side and one question that takes a difference of ten times the scatter's error, with three of 4.6.
#[must_use]
pub fn runs_apart(a: &[f64], b: &[f64], family: usize) -> Option<Ordering> {
    if a.len() < MIN_RUNS || b.len() < MIN_RUNS {
        return None;
    }
    if !a.iter().chain(b).all(|x| x.is_finite()) {
        return None;
    }
    let found = separation_test(a, b);
    let is_claimed = found.p <= FAMILY_ERROR / family.max(1) as f64;
    is_claimed.then(|| found.side.total_cmp(&0.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;

    /// Check the claims of two runs a side: a change far beyond their scatter, never one run, never sides that overlap, and less
    /// where more questions are judged together.
    #[test]
    fn few_runs() {
        assert_eq!(runs_apart(&[1.0], &[2.0, 2.0], 1), None);
        assert_eq!(
            runs_apart(&[1.0, 1.01], &[2.0, 2.02], 1),
            Some(Ordering::Greater)
        );
        assert_eq!(
            runs_apart(&[2.0, 2.02], &[1.0, 1.01], 1),
            Some(Ordering::Less)
        );
        assert_eq!(runs_apart(&[1.0, 1.2], &[2.0, 2.2], 1), None);
        assert_eq!(runs_apart(&[1.0, 3.0], &[2.0, 2.0], 1), None);
        assert_eq!(
            runs_apart(&[1.0, 1.06], &[2.0, 2.06], 1),
            Some(Ordering::Greater)
        );
        assert_eq!(runs_apart(&[1.0, 1.06], &[2.0, 2.06], 30), None);
        assert_eq!(runs_apart(&[1.0, f64::NAN], &[2.0, 2.0], 1), None);
        // Whole counts may be equal to the last digit.
        assert_eq!(
            runs_apart(&[1.0, 1.0], &[2.0, 2.0], 30),
            Some(Ordering::Greater)
        );
    }

    /// Check that A against A, twenty questions at once, is claimed to differ in about 1 of 100 files at most, with two to
    /// five runs a side.
    #[test]
    fn nothing_is_claimed_of_nothing() {
        let mut rng = Rng::new(7);
        // The sum of twelve even numbers is close to a bell curve, with a standard deviation of 1.
        let mut draw = || {
            (0..12)
                .map(|_| rng.below(1 << 20) as f64 / f64::from(1 << 20))
                .sum::<f64>()
        };
        for runs in [2, 3, 5] {
            let mut wrong = 0;
            for _ in 0..1000 {
                let mut side = || (0..runs).map(|_| draw()).collect::<Vec<f64>>();
                wrong += usize::from((0..20).any(|_| runs_apart(&side(), &side(), 20).is_some()));
            }
            // Of 1,000 with a chance of 0.01 each, 30 are beyond six standard deviations.
            assert!(wrong <= 30, "{runs} runs: {wrong}");
        }
    }
}
