//! How long trying may go on: what the user allows, less what the proof needs.

use std::time::{Duration, Instant};

/// A race takes about so long where the user sets no bound, and where a few rounds don't take longer.
const PATIENCE: Duration = Duration::from_secs(90);
/// And a proof goes on for so long where its pairs leave a gain open.
const PROOF_PATIENCE: Duration = Duration::from_secs(180);
/// Rounds of a race: with fewer nothing can be told apart, and more are for the proof.
const ROUNDS: std::ops::RangeInclusive<usize> = 4..=8;
/// So many where the user allows the time: a smaller gain is told apart then.
const MOST_ROUNDS: usize = 20;

/// The bounds of one proof.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Limits {
    /// Of all runs together.
    pub(crate) runs: Option<usize>,
    /// When all of it should be over.
    pub(crate) until: Option<Instant>,
    /// Runs that the proof needs, which are not for trying.
    pub(crate) proof: usize,
}

impl Limits {
    /// Runs that may still be made to try something, after so many in all, where one takes so long; `None` where nothing bounds
    /// them.
    pub(crate) fn left(&self, made: usize, run: Duration, now: Instant) -> Option<usize> {
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

    /// Whether so many more runs may be made for the proof, after `made` in all, where one takes so long.
    pub(crate) fn allow_more(&self, made: usize, more: usize, run: Duration, now: Instant) -> bool {
        let takes = run.as_secs_f64() * more as f64;
        let in_runs = self.runs.is_none_or(|most| made + more <= most);
        let in_time = match self.until {
            Some(until) => takes <= until.saturating_duration_since(now).as_secs_f64(),
            None => self.runs.is_some() || takes <= PROOF_PATIENCE.as_secs_f64(),
        };
        in_runs && in_time
    }

    /// How many rounds of a race that takes so many runs each: as many as are worth their time, and as the bounds allow. `left` is
    /// from [`Limits::left`].
    pub(crate) fn rounds(left: Option<usize>, runs: usize, run: Duration) -> usize {
        let round = run.as_secs_f64() * runs as f64;
        let patient = (PATIENCE.as_secs_f64() / round.max(0.001)) as usize;
        let usual = patient.clamp(*ROUNDS.start(), *ROUNDS.end());
        match left {
            None => usual,
            // half of it, since what wins has to be put together with what else wins
            Some(left) => {
                let most = left / runs.max(1);
                (most / 2).clamp(usual, MOST_ROUNDS).min(most)
            }
        }
    }

    /// How many rounds more with those of which a gain is open after `rounds` of so many runs each: as many again, if the bounds
    /// allow them.
    pub(crate) fn open_rounds(left: Option<usize>, runs: usize, rounds: usize) -> usize {
        let allowed = left.map_or(rounds, |left| (left / runs.max(1)).saturating_sub(rounds));
        rounds.min(allowed)
    }

    /// So many candidates can be told apart in so many runs, of which as many run beside one of the baseline as `group` says.
    pub(crate) fn fit(left: Option<usize>, group: usize, fewest_rounds: usize) -> usize {
        let Some(left) = left else {
            return usize::MAX;
        };
        let a_round = left / fewest_rounds.max(1);
        // of `group + 1` runs of a round one is the baseline's
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
        let limits = |runs, seconds: Option<u64>| Limits {
            runs,
            until: seconds.map(|s| now + Duration::from_secs(s)),
            proof: 14,
        };
        assert_eq!(limits(None, None).left(5, SECOND, now), None);
        assert_eq!(limits(Some(50), None).left(5, SECOND, now), Some(31));
        assert_eq!(limits(None, Some(60)).left(5, 2 * SECOND, now), Some(16));
        assert_eq!(limits(Some(20), Some(900)).left(5, SECOND, now), Some(1));
        assert_eq!(limits(Some(10), Some(900)).left(5, SECOND, now), Some(0));
    }

    /// Check that a proof goes on as long as the bounds allow, and without any for three minutes.
    #[test]
    fn going_on() {
        let now = Instant::now();
        let limits = |runs, seconds: Option<u64>| Limits {
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

    /// Check that short runs get more rounds than long ones, that time which is allowed is used, and that little is kept to.
    #[test]
    fn rounds() {
        assert_eq!(Limits::rounds(None, 5, SECOND), 8);
        assert_eq!(Limits::rounds(None, 5, 60 * SECOND), 4);
        assert_eq!(Limits::rounds(Some(1000), 5, SECOND), 20);
        assert_eq!(Limits::rounds(Some(60), 5, SECOND), 8);
        assert_eq!(Limits::rounds(Some(17), 5, SECOND), 3);
        assert_eq!(Limits::open_rounds(None, 5, 4), 4);
        assert_eq!(Limits::open_rounds(Some(30), 5, 4), 2);
        assert_eq!(Limits::open_rounds(Some(17), 5, 3), 0);
    }

    proptest! {
        /// Check that as many candidates as fit do fit, with a run of the baseline beside each group.
        #[test]
        fn what_fits_fits(left in 0usize..2000, group in 1usize..6, rounds in 1usize..6) {
            let fit = Limits::fit(Some(left), group, rounds);
            prop_assert!(rounds * (fit + fit.div_ceil(group)) <= left);
        }
    }
}
