//! One word for a whole run of `prove`.
//!
//! | an objective | the word |
//! | --- | --- |
//! | any got worse | worse: nobody wants a slower program |
//! | none got worse, any got better | better |
//! | neither | no evidence, whatever else changed |
//!
//! Metrics that explain the change (shootdowns, page faults) decide nothing: 99 % fewer of them mostly won no time. A cost (memory) that got
//! worse does not undo "better": it is the price, and belongs next to the word ([`Overall::worse`] names it).

use crate::{Comparison, Verdict};

/// The part that a metric plays in the verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MetricRole {
    /// The user wants less or more of it: CPU time and wall time, or a figure of the program.
    Objective,
    /// It explains a change of an objective: shootdowns, victims, wait, page faults, system time.
    Explains,
    /// The plan may raise it: memory.
    Cost,
}

/// One metric of a run.
#[derive(Clone, Copy, Debug)]
pub struct NamedComparison<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its part in the verdict.
    pub role: MetricRole,
    /// Its result over all pairs.
    pub comparison: &'a Comparison,
}

/// The verdict of a run, with the metrics that changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overall {
    /// The word.
    pub verdict: Verdict,
    /// Names of the metrics that got better.
    pub better: Vec<String>,
    /// Names of the metrics that got worse, the cost included.
    pub worse: Vec<String>,
}

/// Judges a whole run: by its objectives alone.
#[must_use]
pub fn judge_overall(metrics: &[NamedComparison<'_>]) -> Overall {
    let has = |verdict: Verdict| {
        metrics
            .iter()
            .any(|m| m.comparison.verdict == verdict && m.role == MetricRole::Objective)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Rules, RunPair, compare_pairs};

    fn made(verdict: Verdict) -> Comparison {
        let after = match verdict {
            Verdict::Better => 1.0,
            Verdict::Worse => 4.0,
            Verdict::NoEvidence => 2.0,
        };
        let got = compare_pairs(&[RunPair::new(2.0, after); 5], &Rules::default());
        assert_eq!(got.verdict, verdict);
        got
    }

    fn word(benefit: Verdict, time: Verdict, cost: Verdict) -> Overall {
        let (benefit, time, cost) = (made(benefit), made(time), made(cost));
        let named = |name, role, comparison| NamedComparison {
            name,
            role,
            comparison,
        };
        judge_overall(&[
            named("shootdowns", MetricRole::Explains, &benefit),
            named("wall_ns", MetricRole::Objective, &time),
            named("max_rss", MetricRole::Cost, &cost),
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
        assert_eq!(judge_overall(&[]).verdict, NoEvidence);
    }

    /// Check that the metrics that got better and the cost are named.
    #[test]
    fn metrics_are_named() {
        use Verdict::{Better, Worse};
        let overall = word(Better, Better, Worse);
        assert_eq!(overall.better, ["shootdowns", "wall_ns"]);
        assert_eq!(overall.worse, ["max_rss"]);
    }
}
