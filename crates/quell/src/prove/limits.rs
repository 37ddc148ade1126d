//! The bounds of the search for changes that win: the time and the runs that the user allows, less those for the proof.

use std::time::{Duration, Instant};

/// The time for a race where the user sets no bound; a race of long runs takes longer, for its few rounds.
const RACE_PATIENCE: Duration = Duration::from_secs(90);
/// The time for further pairs where those of the proof leave a gain open and the user sets no bound.
const PROOF_PATIENCE: Duration = Duration::from_secs(180);
/// The usual number of rounds of a race: fewer distinguish nothing, and more are left to the proof.
const USUAL_ROUNDS: std::ops::RangeInclusive<usize> = 4..=8;
/// The most rounds of a race where the user allows the time, to distinguish smaller gains.
const MAX_ROUNDS: usize = 20;

/// The bounds of one proof.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ProofLimits {
    /// The most runs, all together.
    pub(crate) runs: Option<usize>,
    /// The time at which the whole proof should be over.
    pub(crate) until: Option<Instant>,
    /// Runs that are kept for the proof.
    pub(crate) proof: usize,
}

impl ProofLimits {
    /// The runs that may still be spent on trials, after `made` runs in all, where one takes `run`: those that the user allows,
    /// without the ones for the proof. `None` where the user sets no bound.
    pub(crate) fn trial_runs_left(
        &self,
        made: usize,
        run: Duration,
        now: Instant,
    ) -> Option<usize> {
        let by_runs = self.runs.map(|most| most.saturating_sub(made));
        let by_time = self.until.map(|until| {
            let left = until.saturating_duration_since(now);
            (left.as_secs_f64() / run.as_secs_f64().max(0.001)) as usize
        });
        let left = match (by_runs, by_time) {
            (Some(a), Some(b)) => a.min(b),
            (a, b) => a.or(b)?,
        };
        Some(left.saturating_sub(self.proof))
    }

    /// Whether `more` runs may be made for the proof, after `made` in all, where one takes `run`. [`PROOF_PATIENCE`] counts only
    /// where the user sets no bound at all: who bounds the runs accepts the time that they take.
    pub(crate) fn allow_more(&self, made: usize, more: usize, run: Duration, now: Instant) -> bool {
        let takes = run.as_secs_f64() * more as f64;
        let in_runs = self.runs.is_none_or(|most| made + more <= most);
        let in_time = match self.until {
            Some(until) => takes <= until.saturating_duration_since(now).as_secs_f64(),
            None => self.runs.is_some() || takes <= PROOF_PATIENCE.as_secs_f64(),
        };
        in_runs && in_time
    }

    /// The number of rounds for a race that takes `runs` runs a round: as many as are worth their time and as the bounds
    /// allow. `left` is from [`ProofLimits::trial_runs_left`].
    pub(crate) fn race_rounds(left: Option<usize>, runs: usize, run: Duration) -> usize {
        let round = run.as_secs_f64() * runs as f64;
        let patient = (RACE_PATIENCE.as_secs_f64() / round.max(0.001)) as usize;
        let usual = patient.clamp(*USUAL_ROUNDS.start(), *USUAL_ROUNDS.end());
        match left {
            None => usual,
            // Half of it, because the other half is for races of the winners in combination.
            Some(left) => {
                let most = left / runs.max(1);
                (most / 2).clamp(usual, MAX_ROUNDS).min(most)
            }
        }
    }

    /// The number of extra rounds for candidates whose gain is still open after `rounds` rounds of `runs` runs each: as many
    /// again, if the bounds allow them.
    pub(crate) fn open_rounds(left: Option<usize>, runs: usize, rounds: usize) -> usize {
        let allowed = left.map_or(rounds, |left| (left / runs.max(1)).saturating_sub(rounds));
        rounds.min(allowed)
    }

    /// The number of candidates that can all have `fewest_rounds` rounds with `left` runs, where `group` of them run beside one
    /// run of the baseline. There is no bound where `left` is none, and 0 is no race.
    pub(crate) fn max_candidates(left: Option<usize>, group: usize, fewest_rounds: usize) -> usize {
        let Some(left) = left else {
            return usize::MAX;
        };
        let a_round = left / fewest_rounds.max(1);
        // One of every `group + 1` runs of a round is the baseline's.
        let groups = a_round.div_ceil(group + 1);
        a_round.saturating_sub(groups)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Check that the nearer of two bounds holds, and that the proof keeps its runs.
    #[test]
    fn what_is_left() {
        let now = Instant::now();
        let limits = |runs, seconds: Option<u64>| ProofLimits {
            runs,
            until: seconds.map(|s| now + Duration::from_secs(s)),
            proof: 14,
        };
        assert_eq!(limits(None, None).trial_runs_left(5, SECOND, now), None);
        assert_eq!(
            limits(Some(50), None).trial_runs_left(5, SECOND, now),
            Some(31)
        );
        assert_eq!(
            limits(None, Some(60)).trial_runs_left(5, 2 * SECOND, now),
            Some(16)
        );
        assert_eq!(
            limits(Some(20), Some(900)).trial_runs_left(5, SECOND, now),
            Some(1)
        );
        assert_eq!(
            limits(Some(10), Some(900)).trial_runs_left(5, SECOND, now),
            Some(0)
        );
    }

    /// Check that a proof goes on as long as the bounds allow, and for three minutes without any.
    #[test]
    fn going_on() {
        let now = Instant::now();
        let limits = |runs, seconds: Option<u64>| ProofLimits {
            runs,
            until: seconds.map(|s| now + Duration::from_secs(s)),
            proof: 13,
        };
        assert!(limits(None, None).allow_more(40, 10, 18 * SECOND, now));
        assert!(!limits(None, None).allow_more(40, 10, 19 * SECOND, now));
        assert!(limits(Some(50), None).allow_more(40, 10, 60 * SECOND, now));
        assert!(!limits(Some(49), None).allow_more(40, 10, SECOND, now));
        assert!(limits(None, Some(600)).allow_more(40, 10, 60 * SECOND, now));
        assert!(!limits(None, Some(599)).allow_more(40, 10, 60 * SECOND, now));
    }

    /// Check that short runs get more rounds than long ones, that allowed time is used, and that a small bound is kept.
    #[test]
    fn race_rounds() {
        assert_eq!(ProofLimits::race_rounds(None, 5, SECOND), 8);
        assert_eq!(ProofLimits::race_rounds(None, 5, 60 * SECOND), 4);
        assert_eq!(ProofLimits::race_rounds(Some(1000), 5, SECOND), 20);
        assert_eq!(ProofLimits::race_rounds(Some(60), 5, SECOND), 8);
        assert_eq!(ProofLimits::race_rounds(Some(17), 5, SECOND), 3);
        assert_eq!(ProofLimits::open_rounds(None, 5, 4), 4);
        assert_eq!(ProofLimits::open_rounds(Some(30), 5, 4), 2);
        assert_eq!(ProofLimits::open_rounds(Some(17), 5, 3), 0);
    }

    proptest! {
        /// Check that as many candidates as fit do fit, with a run of the baseline beside each group.
        #[test]
        fn what_fits_fits(left in 0usize..2000, group in 1usize..6, rounds in 1usize..6) {
            let fit = ProofLimits::max_candidates(Some(left), group, rounds);
            prop_assert!(rounds * (fit + fit.div_ceil(group)) <= left);
        }
    }
}
