//! A few whole runs of one side against a few of the other: `quell lab compare` claims by this test.

use std::cmp::Ordering;

use crate::dist::student_two_sided;
use crate::guard::FAMILY_ERROR;

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
    let range = |side: &[f64]| {
        let low = side.iter().copied().fold(f64::INFINITY, f64::min);
        (low, side.iter().copied().fold(f64::NEG_INFINITY, f64::max))
    };
    let (of_a, of_b) = (range(a), range(b));
    let side = if of_b.0 > of_a.1 {
        Ordering::Greater
    } else if of_b.1 < of_a.0 {
        Ordering::Less
    } else {
        return None;
    };
    let mean = |side: &[f64]| side.iter().sum::<f64>() / side.len() as f64;
    let (mean_a, mean_b) = (mean(a), mean(b));
    let squares = |side: &[f64], mean: f64| side.iter().map(|x| (x - mean).powi(2)).sum::<f64>();
    let df = a.len() + b.len() - 2;
    let variance = (squares(a, mean_a) + squares(b, mean_b)) / df as f64;
    let error = (variance * (1.0 / a.len() as f64 + 1.0 / b.len() as f64)).sqrt();
    let chance = student_two_sided((mean_b - mean_a) / error, df);
    (chance <= FAMILY_ERROR / family.max(1) as f64).then_some(side)
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
