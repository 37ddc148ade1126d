//! One word for a whole run of `prove`.
//!
//! | an objective | the word |
//! | --- | --- |
//! | any got worse | worse: a slower program is not what anyone asked for |
//! | none got worse, any got better | better |
//! | neither | no evidence, whatever else changed |
//!
//! What explains it (shootdowns, page faults) decides nothing: 99 % fewer of them mostly won no time. A cost (memory) that got
//! worse does not undo "better": it is the price, and belongs next to the word ([`Overall::worse`] names it).

use crate::{Comparison, Verdict};
use std::fmt;

/// What a metric counts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// What the user wants less or more of: CPU time and wall time, or a figure of the program.
    Objective,
    /// What explains a change of that: shootdowns, victims, wait, page faults, system time.
    Explains,
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

/// Judges a whole run: by its objectives alone.
#[must_use]
pub fn overall(metrics: &[Named<'_>]) -> Overall {
    let has = |verdict: Verdict| {
        metrics
            .iter()
            .any(|m| m.comparison.verdict == verdict && m.role == Role::Objective)
    };
    let names = |verdict: Verdict| {
        metrics
            .iter()
            .filter(|m| m.comparison.verdict == verdict)
            .map(|m| m.name.to_owned())
            .collect()
    };
    let verdict = if has(Verdict::Worse) {
        Verdict::Worse
    } else if has(Verdict::Better) {
        Verdict::Better
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
            named("shootdowns", Role::Explains, &benefit),
            named("wall_ns", Role::Objective, &time),
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
                    assert_eq!(word(benefit, time, cost).verdict, time);
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
            word(Better, Better, Worse).to_string(),
            "better: shootdowns, wall_ns better; max_rss worse"
        );
        assert_eq!(
            word(NoEvidence, NoEvidence, NoEvidence).to_string(),
            "no evidence"
        );
    }
}
