//! A race of candidates beside a baseline: which run next, which are out, which have won.
//!
//! Nothing here runs a program or reads a clock: the caller gets the next group of runs ([`Race::next_group`]), makes them in
//! that order, and hands the results in ([`Race::record_group`]). Runs that are compared lie side by side in time: a group is the
//! baseline and at most [`MAX_GROUP_CANDIDATES`] candidates, in an order that chance decides, since machines change from minute to minute.
//!
//! A race chooses, and the choice flatters the gain of its winner: whoever wants to know the gain proves it on fresh
//! runs. So candidates are dropped for little, to save time: a candidate that is as likely to lose as to win is of no use,
//! whatever a test would say.

use crate::{Rng, anytime_interval, evidence_above, evidence_below, median, quantile};

/// At most this many candidates run beside one run of the baseline.
pub const MAX_GROUP_CANDIDATES: usize = 4;

/// A candidate is judged only after this many rounds.
pub const MIN_ROUNDS: usize = 3;
/// With this evidence a candidate has won and needs no more rounds: chance brings it in one of twenty races.
const CLEAR_EVIDENCE: f64 = 20.0;
/// At the end of the race less evidence is enough, because the proof that follows exposes a winner by luck.
const LIKELY_EVIDENCE: f64 = 4.0;
/// A candidate is dropped with this evidence that it loses.
const LOSING_EVIDENCE: f64 = 4.0;
/// In the worst tenth of its rounds a candidate may take this share more than the baseline, or as much more as the baseline
/// itself takes in a bad tenth of its rounds, whichever is larger.
const MIN_BAD_TENTH: f64 = 0.02;

/// How to judge.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RaceRules {
    /// A smaller gain is none: 0.01 is 1 %.
    pub least_gain: f64,
    /// The race is over after this many rounds, but for candidates whose gain is still open.
    pub most_rounds: usize,
    /// This many more rounds are made with candidates whose median gains, while the evidence for that is still too weak.
    pub open_rounds: usize,
    /// More is better: a throughput.
    pub higher_is_better: bool,
}

impl Default for RaceRules {
    fn default() -> Self {
        Self {
            least_gain: 0.01,
            most_rounds: 8,
            open_rounds: 0,
            higher_is_better: false,
        }
    }
}

/// A participant of the race.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Runner {
    /// The candidates are compared with it.
    Baseline,
    /// The candidate of this number.
    Candidate(usize),
}

/// Why a candidate is out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Elimination {
    /// A run with it failed.
    Failed,
    /// It is slower than the baseline.
    Slower,
    /// It can't win as much as the least gain, or not in the time that there was.
    NoGain,
    /// It wins in the median, and loses in its worst tenth: there it takes `ratio` of the baseline.
    Wild {
        /// After over before; of a throughput, before over after: above 1 is worse.
        ratio: f64,
    },
}

/// Where a candidate stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fate {
    /// It runs on.
    Racing,
    /// It runs no more, and has lost.
    Out(Elimination),
    /// It has won.
    Won,
}

/// The state of one candidate.
#[derive(Clone, Debug, PartialEq)]
pub struct Standing {
    /// Whether it still runs, has won, or is out.
    pub fate: Fate,
    /// Rounds in which it ran beside the baseline.
    pub rounds: usize,
    /// After over before, the middle of the rounds; 1 before the first.
    pub ratio: f64,
    /// Where that lies, with 95 % confidence in all looks together.
    pub ci95: (f64, f64),
}

#[derive(Clone, Debug)]
struct Racer {
    /// Logarithms of after over before, turned so that less is better.
    differences: Vec<f64>,
    fate: Fate,
}

/// A race under way.
#[derive(Clone, Debug)]
pub struct Race {
    rules: RaceRules,
    rng: Rng,
    candidates: Vec<Racer>,
    /// The groups of this round that have not run.
    groups: Vec<Vec<Runner>>,
    round: usize,
    /// The logarithms of the baseline's runs, in order.
    baseline: Vec<f64>,
}

impl Race {
    /// Starts a race of this many candidates, none of which has run. The same seed gives the same orders.
    #[must_use]
    pub fn new(candidates: usize, rules: RaceRules, seed: u64) -> Self {
        let racer = Racer {
            differences: Vec::new(),
            fate: Fate::Racing,
        };
        Self {
            rules,
            rng: Rng::new(seed),
            candidates: vec![racer; candidates],
            groups: Vec::new(),
            round: 0,
            baseline: Vec::new(),
        }
    }

    /// The runs to make next, in this order; none when the race is over.
    pub fn next_group(&mut self) -> Option<Vec<Runner>> {
        loop {
            if let Some(group) = self.groups.pop() {
                // Some may have failed since this group was drawn.
                let still = |r: &Runner| match r {
                    Runner::Baseline => true,
                    Runner::Candidate(n) => self.candidates[*n].fate == Fate::Racing,
                };
                let group: Vec<Runner> = group.into_iter().filter(still).collect();
                if group.len() > 1 {
                    return Some(group);
                }
                continue;
            }
            self.judge_round();
            if self.round >= self.rules.most_rounds {
                self.finish_race(self.round < self.all_rounds());
            }
            let mut racing = self.racing_candidates();
            if racing.is_empty() {
                return None;
            }
            self.round += 1;
            self.rng.shuffle(&mut racing);
            let groups = racing.len().div_ceil(MAX_GROUP_CANDIDATES);
            let size = racing.len().div_ceil(groups);
            for some in racing.chunks(size) {
                let candidates = some.iter().map(|&n| Runner::Candidate(n));
                let mut group: Vec<Runner> = candidates.chain([Runner::Baseline]).collect();
                self.rng.shuffle(&mut group);
                self.groups.push(group);
            }
        }
    }

    /// Records the results of a group: the objective of each run that worked, more than 0.
    pub fn record_group(&mut self, group: &[(Runner, Option<f64>)]) {
        let log = |value: f64| match value {
            v if v > 0.0 && v.is_finite() => Some(v.ln()),
            _ => None,
        };
        let baseline = group.iter().find(|(r, _)| *r == Runner::Baseline);
        let baseline = baseline.and_then(|(_, value)| log((*value)?));
        self.baseline.extend(baseline);
        let turn = self.difference_sign();
        for (runner, value) in group {
            let Runner::Candidate(number) = *runner else {
                continue;
            };
            let Some(candidate) = self.candidates.get_mut(number) else {
                continue;
            };
            match value {
                None => candidate.fate = Fate::Out(Elimination::Failed),
                Some(value) => {
                    let difference = log(*value).zip(baseline).map(|(a, b)| turn * (a - b));
                    candidate.differences.extend(difference);
                }
            }
        }
    }

    /// Runs that are still to come if nobody drops out.
    #[must_use]
    pub fn runs_left(&self) -> usize {
        let racing = self.racing_candidates().len();
        let rounds = self.all_rounds().saturating_sub(self.round);
        let this: usize = self.groups.iter().map(Vec::len).sum();
        this + rounds * (racing + racing.div_ceil(MAX_GROUP_CANDIDATES))
    }

    /// Where each candidate stands.
    #[must_use]
    pub fn standings(&self) -> Vec<Standing> {
        let turn = self.difference_sign();
        let standing = |c: &Racer| {
            let (low, high) = anytime_interval(&c.differences, 0.95);
            let ends = (low * turn, high * turn);
            Standing {
                fate: c.fate,
                rounds: c.differences.len(),
                ratio: (turn * median(&c.differences)).exp(),
                ci95: (ends.0.min(ends.1).exp(), ends.0.max(ends.1).exp()),
            }
        };
        self.candidates.iter().map(standing).collect()
    }

    /// The winners, the largest gain first.
    #[must_use]
    pub fn winners(&self) -> Vec<usize> {
        let won = |n: &usize| self.candidates[*n].fate == Fate::Won;
        let mut winners: Vec<usize> = (0..self.candidates.len()).filter(won).collect();
        let middle = |n: &usize| median(&self.candidates[*n].differences);
        winners.sort_by(|a, b| middle(a).total_cmp(&middle(b)));
        winners
    }

    fn all_rounds(&self) -> usize {
        self.rules
            .most_rounds
            .saturating_add(self.rules.open_rounds)
    }

    fn racing_candidates(&self) -> Vec<usize> {
        let racing = |n: &usize| self.candidates[*n].fate == Fate::Racing;
        (0..self.candidates.len()).filter(racing).collect()
    }

    /// The logarithm of the least gain.
    fn least_gain_log(&self) -> f64 {
        (1.0 - self.rules.least_gain).ln()
    }

    /// 1, or -1 where more is better: differences are turned by it so that less is.
    fn difference_sign(&self) -> f64 {
        if self.rules.higher_is_better {
            -1.0
        } else {
            1.0
        }
    }

    /// The share that a candidate may take more in a bad tenth of its rounds: as much as the baseline differed from one round
    /// to the next.
    fn bad_tenth(&self) -> f64 {
        let steps: Vec<f64> = self
            .baseline
            .windows(2)
            .map(|w| (w[1] - w[0]).abs())
            .collect();
        // A tenth of its rounds lie that far above, and as many that far below.
        quantile(&steps, 0.8).max(MIN_BAD_TENTH)
    }

    /// Drops candidates that have lost, and ends the race for those that have clearly won.
    fn judge_round(&mut self) {
        let (least, bad) = (self.least_gain_log(), self.bad_tenth());
        let is_late = 2 * self.round >= self.rules.most_rounds;
        for candidate in &mut self.candidates {
            let seen = &candidate.differences;
            if candidate.fate != Fate::Racing || seen.len() < MIN_ROUNDS {
                continue;
            }
            let slower =
                evidence_above(seen, 0.0) >= LOSING_EVIDENCE || seen.iter().all(|d| *d > 0.0);
            // A candidate without a gain in the first half of the race will hardly gain in the second.
            let behind = is_late && median(seen) > least;
            let beaten = evidence_above(seen, least) >= LOSING_EVIDENCE || behind;
            let clear = evidence_below(seen, 0.0) >= CLEAR_EVIDENCE && median(seen) <= least;
            candidate.fate = match () {
                () if slower => Fate::Out(Elimination::Slower),
                () if beaten => Fate::Out(Elimination::NoGain),
                () if clear && quantile(seen, 0.9) <= bad => Fate::Won,
                () => Fate::Racing,
            };
        }
    }

    /// Decides for each candidate that still runs whether it has won. Where `more` rounds may come, candidates whose median gains
    /// without enough evidence stay undecided.
    fn finish_race(&mut self, more: bool) {
        let (least, bad) = (self.least_gain_log(), self.bad_tenth());
        for candidate in &mut self.candidates {
            if candidate.fate != Fate::Racing {
                continue;
            }
            let seen = &candidate.differences;
            let enough = seen.len() >= MIN_ROUNDS;
            let promises = enough && median(seen) <= least;
            let shows = evidence_below(seen, 0.0) >= LIKELY_EVIDENCE;
            if promises && !shows && more {
                continue;
            }
            let worst = quantile(seen, 0.9);
            candidate.fate = match () {
                () if !(promises && shows) => Fate::Out(Elimination::NoGain),
                () if worst > bad => Fate::Out(Elimination::Wild { ratio: worst.exp() }),
                () => Fate::Won,
            };
        }
    }
}

#[cfg(test)]
#[path = "race_tests.rs"]
mod tests;
