//! The number of rounds: it is planned from the scatter of those that were made, and the interval is looked at only then. Looking
//! after every round, and stopping when the interval looks good, would print "95 %" and have less.

use super::{Judgement, LabVerdict};

/// Rounds before the first look.
const FIRST_LOOK_ROUNDS: usize = 8;

/// More rounds change little: the interval gets narrower by the square root only.
const MAX_PLANNED_ROUNDS: usize = 256;

/// The width of the interval that is wanted, as a share of the effect.
const WANTED_WIDTH_SHARE: f64 = 0.2;

/// The number of rounds at which to look next; none where the verdict stands, or more rounds would not help.
#[must_use]
pub(crate) fn next_look(rounds: usize, judgement: Option<&Judgement>) -> Option<usize> {
    let Some(judgement) = judgement else {
        return Some(FIRST_LOOK_ROUNDS);
    };
    if rounds >= MAX_PLANNED_ROUNDS {
        return None;
    }
    let wanted = match judgement.real.verdict {
        LabVerdict::Shown => {
            let ppm = &judgement.real.stall_ppm;
            // The number grows with the square of the width.
            let factor =
                ((ppm.ci95.1 - ppm.ci95.0) / (WANTED_WIDTH_SHARE * ppm.difference)).powi(2);
            if factor <= 1.0 && judgement.sham.verdict.is_answer() {
                return None;
            }
            // A plan for more than four times as many would rest on too little, and a little more is not worth a look of its own.
            rounds as f64 * factor.clamp(1.5, 4.0)
        }
        LabVerdict::NotShown if judgement.sham.verdict.is_answer() => return None,
        LabVerdict::NotShown | LabVerdict::TooNoisy | LabVerdict::TooShort => rounds as f64 * 2.0,
    };
    Some((wanted.ceil() as usize).min(MAX_PLANNED_ROUNDS))
}
