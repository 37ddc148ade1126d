//! Two groups that lie apart: every value of one beyond every value of the other, and how surprising that is for their scatter.

use crate::dist::student_two_sided;
use crate::rank::RankOutcome;

/// The chance of Student's t with one variance for both groups, where they lie apart; elsewhere nothing is surprising.
pub(crate) fn separation_test(before: &[f64], after: &[f64]) -> RankOutcome {
    let (low, high) = (value_range(before), value_range(after));
    let side = if high.0 > low.1 {
        1.0
    } else if high.1 < low.0 {
        -1.0
    } else {
        return RankOutcome::NO_SURPRISE;
    };
    let (mean_before, squares_before) = mean_and_squares(before);
    let (mean_after, squares_after) = mean_and_squares(after);
    let df = (before.len() + after.len()).saturating_sub(2);
    // If nothing changed, both sides have the same variance.
    let variance = (squares_before + squares_after) / df as f64;
    let error = (variance * (1.0 / before.len() as f64 + 1.0 / after.len() as f64)).sqrt();
    RankOutcome {
        p: student_two_sided((mean_after - mean_before) / error, df),
        side,
    }
}

fn value_range(values: &[f64]) -> (f64, f64) {
    values
        .iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &v| {
            (low.min(v), high.max(v))
        })
}

/// The mean, and the sum of the squared distances from it.
pub(crate) fn mean_and_squares(values: &[f64]) -> (f64, f64) {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    (mean, values.iter().map(|v| (v - mean).powi(2)).sum())
}
