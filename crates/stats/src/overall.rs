//! One word for a whole run of `prove`.
//!
//! | time | something else | the word |
//! | --- | --- | --- |
//! | worse | anything | worse: a slower program is not what anyone asked for |
//! | better, or no evidence | any benefit better, or time itself | better |
//! | no evidence | nothing better, a benefit worse | worse |
//! | no evidence | nothing better or worse | no evidence |
//!
//! A cost (memory) that got worse does not undo "better": it is the price, and belongs next to the
//! word ([`Overall::worse`] names it). Nor does a cost that got better make a plan better.

use crate::{Comparison, Verdict};
use std::fmt;

/// What a metric counts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// What the plan is for: shootdowns, victims, wait, page faults, system time.
    Benefit,
    /// How long the program takes, or what it gets done in a time: must not get worse.
    Time,
    /// What the plan may cost: memory.
    Cost,
}

/// One metric of a run.
#[derive(Clone, Copy, Debug)]
pub struct Named<'a> {
    /// Its name.
    pub name: &'a str,
    /// What it counts for.
    pub role: Role,
    /// What the pairs say about it.
    pub comparison: &'a Comparison,
}

/// The word for a run, and what it rests on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overall {
    /// The word.
    pub verdict: Verdict,
    /// Names of what got better.
    pub better: Vec<String>,
    /// Names of what got worse, the price included.
    pub worse: Vec<String>,
}

/// Judges a whole run.
///
/// Better only if a benefit or the time got better and no time got worse. Worse if a time got worse,
/// or if a benefit got worse and nothing got better. All else is no evidence.
#[must_use]
pub fn overall(metrics: &[Named<'_>]) -> Overall {
    let has = |verdict: Verdict, roles: &[Role]| {
        metrics
            .iter()
            .any(|m| m.comparison.verdict == verdict && roles.contains(&m.role))
    };
    let names = |verdict: Verdict| {
        metrics
            .iter()
            .filter(|m| m.comparison.verdict == verdict)
            .map(|m| m.name.to_owned())
            .collect()
    };
    let verdict = if has(Verdict::Worse, &[Role::Time]) {
        Verdict::Worse
    } else if has(Verdict::Better, &[Role::Benefit, Role::Time]) {
        Verdict::Better
    } else if has(Verdict::Worse, &[Role::Benefit]) {
        Verdict::Worse
    } else {
        Verdict::NoEvidence
    };
    Overall {
        verdict,
        better: names(Verdict::Better),
        worse: names(Verdict::Worse),
    }
}

impl fmt::Display for Overall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.verdict)?;
        let mut mark = ": ";
        for (word, names) in [("better", &self.better), ("worse", &self.worse)] {
            if !names.is_empty() {
                write!(f, "{mark}{} {word}", names.join(", "))?;
                mark = "; ";
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Pair, Rules, compare};

    fn made(verdict: Verdict) -> Comparison {
        let after = match verdict {
            Verdict::Better => 1.0,
            Verdict::Worse => 4.0,
            Verdict::NoEvidence => 2.0,
        };
        let got = compare(&[Pair::new(2.0, after); 5], &Rules::default());
        assert_eq!(got.verdict, verdict);
        got
    }

    fn word(benefit: Verdict, time: Verdict, cost: Verdict) -> Overall {
        let (benefit, time, cost) = (made(benefit), made(time), made(cost));
        let named = |name, role, comparison| Named {
            name,
            role,
            comparison,
        };
        overall(&[
            named("shootdowns", Role::Benefit, &benefit),
            named("wall_ns", Role::Time, &time),
            named("max_rss", Role::Cost, &cost),
        ])
    }

    /// Check that all 27 cases follow the table.
    #[test]
    fn table() {
        use Verdict::{Better, NoEvidence, Worse};
        for benefit in [Better, Worse, NoEvidence] {
            for time in [Better, Worse, NoEvidence] {
                for cost in [Better, Worse, NoEvidence] {
                    let want = match (benefit, time) {
                        (_, Worse) => Worse,
                        (Better, _) | (_, Better) => Better,
                        (Worse, NoEvidence) => Worse,
                        (NoEvidence, NoEvidence) => NoEvidence,
                    };
                    assert_eq!(word(benefit, time, cost).verdict, want);
                }
            }
        }
        assert_eq!(overall(&[]).verdict, NoEvidence);
    }

    /// Check that the line names what got better and the price.
    #[test]
    fn line() {
        use Verdict::{Better, NoEvidence, Worse};
        assert_eq!(
            word(Better, NoEvidence, Worse).to_string(),
            "better: shootdowns better; max_rss worse"
        );
        assert_eq!(
            word(NoEvidence, NoEvidence, NoEvidence).to_string(),
            "no evidence"
        );
    }
}
