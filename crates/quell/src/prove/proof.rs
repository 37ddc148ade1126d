//! The proof: the runs, the judgement of each metric, and the words for it.

use std::collections::BTreeMap;

use quell_event::account::AccountSummary;
use quell_remedy::advice::Advised;
use quell_remedy::{Evidence, Plan};
use quell_stats::{
    Comparison, Looks, MIN_COUNTS, MetricRole, NamedComparison, Overall, Reason, Rules, RunPair,
    Verdict, compare_pairs, judge_overall,
};

use super::left_out::LeftOut;
use super::metric::ProofMetric;
use super::pair_accounts::PairAccounts;
use super::sample::RunSample;
use super::tried::TriedChange;
use crate::show::account::is_nothing_to_win;
use crate::show::units::{percent, plural};

/// One metric and its comparison over the pairs.
pub(crate) struct JudgedMetric {
    pub(crate) metric: ProofMetric,
    pub(crate) comparison: Comparison,
}

/// Everything that the report of a proof has.
pub(crate) struct Proof {
    pub(crate) command: Vec<String>,
    /// The number of pairs that were run; fewer than intended after an interrupt.
    pub(crate) pairs: usize,
    /// The seed that decided the orders of the pairs.
    pub(crate) seed: u64,
    pub(crate) plan: Plan,
    /// Remedies that were taken out of the plan, because they broke the program or would.
    pub(crate) left_out: Vec<LeftOut>,
    /// The variables that the plan sets, with the user's own settings kept.
    pub(crate) environment: BTreeMap<String, String>,
    /// The evidence of the observed run, if there was one.
    pub(crate) observed: Option<Evidence>,
    /// The account of the observed run.
    pub(crate) account: Option<AccountSummary>,
    /// Advice for costs that no setting reaches, by the observed run.
    pub(crate) advice: Vec<Advised>,
    /// The changes that were tried by runs before.
    pub(crate) tried: Vec<TriedChange>,
    /// The accounts of one run without and one with the plan.
    pub(crate) spent: Option<Box<PairAccounts>>,
    pub(crate) metrics: Vec<JudgedMetric>,
    pub(crate) overall: Overall,
    /// The reason why no pairs were run, if none were.
    pub(crate) nothing: Option<String>,
    /// Further notes for the user.
    pub(crate) notes: Vec<String>,
}

impl Proof {
    /// The share of the shootdowns that the plan stopped, by the medians within pairs; negative where there were more. None
    /// where no pairs were run, or where there were none to stop.
    pub(crate) fn measured_stop(&self) -> Option<f64> {
        let c = self.shootdown_comparison()?;
        let usable = !matches!(c.reason, Some(Reason::Unusable { .. }));
        (usable && c.ratio.is_finite() && c.median_before > 0.0)
            .then(|| ((1.0 - c.ratio) * 1000.0).round() / 1000.0)
    }

    /// Whether pairs were run that had no shootdowns without the plan, so that it had none to stop, even if the observed run
    /// had some.
    pub(crate) fn nothing_to_measure(&self) -> bool {
        self.shootdown_comparison()
            .is_some_and(|c| !c.before.is_empty() && c.median_before == 0.0)
    }

    /// The metric that the verdict rests on: the first objective with this verdict, or else the first objective.
    pub(crate) fn deciding_metric(&self) -> Option<&JudgedMetric> {
        let carries = |j: &&JudgedMetric| j.comparison.verdict == self.overall.verdict;
        let mut all = self.with_role(MetricRole::Objective);
        all.find(carries)
            .or_else(|| self.with_role(MetricRole::Objective).next())
    }

    /// The metrics of a role.
    pub(crate) fn with_role(&self, role: MetricRole) -> impl Iterator<Item = &JudgedMetric> {
        let judged = self.metrics.iter();
        judged.filter(move |j| j.metric.role == role)
    }

    /// The role of the metric with this name.
    pub(crate) fn role_of(&self, name: &str) -> Option<MetricRole> {
        let judged = self.metrics.iter().find(|j| j.metric.name == name)?;
        Some(judged.metric.role)
    }

    /// Whether an explaining metric got better, and no objective got better or worse.
    pub(crate) fn is_no_faster(&self) -> bool {
        let is_better = |j: &JudgedMetric| j.comparison.verdict == Verdict::Better;
        self.overall.verdict == Verdict::NoEvidence
            && self.with_role(MetricRole::Explains).any(is_better)
    }

    fn shootdown_comparison(&self) -> Option<&Comparison> {
        let judged = self.metrics.iter();
        let mut shootdowns = judged.filter(|j| j.metric.name == "shootdowns");
        shootdowns.next().map(|j| &j.comparison)
    }
}

impl JudgedMetric {
    /// The reason why there is no evidence, where there is none.
    pub(crate) fn why_no_evidence(&self) -> Option<String> {
        let c = &self.comparison;
        if c.before.is_empty() {
            return Some("no pairs were run".to_owned());
        }
        Some(match c.reason? {
            // The reason speaks of few counts. Thousands are not few, only their difference is small.
            Reason::TooFewCounts { before, after }
                if c.median_before.max(c.median_after) >= MIN_COUNTS =>
            {
                format!(
                    "{} before and {} after in all runs together, which is no more apart than chance brings",
                    self.metric.unit.format_value(before),
                    self.metric.unit.format_value(after)
                )
            }
            reason => reason.to_string(),
        })
    }
}

/// Judges every metric over the pairs of runs, without and with the plan.
pub(crate) fn judge_metrics(
    metrics: &[ProofMetric],
    pairs: &[(RunSample, RunSample)],
    looks: &Looks,
    seed: u64,
) -> (Vec<JudgedMetric>, Overall) {
    let judged: Vec<JudgedMetric> = metrics
        .iter()
        .enumerate()
        .map(|(index, metric)| {
            let value = |s: &RunSample| s.values.get(index).copied().unwrap_or(f64::NAN);
            let values: Vec<RunPair> = pairs
                .iter()
                .map(|(b, a)| RunPair::new(value(b), value(a)))
                .collect();
            // The correction for many comparisons counts metrics of the same role only, so that further metrics in the table
            // don't make the objectives harder to prove.
            let family = metrics.iter().filter(|m| m.role == metric.role).count();
            let rules = Rules {
                family,
                looks: looks.planned(),
                seed,
                kind: metric.unit.kind(),
                higher_is_better: metric.higher_is_better,
                ..Rules::default()
            };
            JudgedMetric {
                metric: metric.clone(),
                comparison: compare_pairs(&values, &rules),
            }
        })
        .collect();
    let named: Vec<NamedComparison<'_>> = judged
        .iter()
        .map(|j| NamedComparison {
            name: &j.metric.name,
            role: j.metric.role,
            comparison: &j.comparison,
        })
        .collect();
    let overall = judge_overall(&named);
    (judged, overall)
}

/// The reason where an interrupt left no time to compare.
pub(crate) const NOT_PROVED: &str =
    "interrupted while changes were tried: the winners so far are not proved";

/// The reason where every remedy of the plan was left out.
pub(crate) const NOTHING_LEFT: &str =
    "nothing is left of the plan, because the program does not bear it: nothing is recommended";

/// The reason where no tried change won.
pub(crate) fn nothing_won(tried: usize, objective: &str) -> String {
    match tried {
        1 => format!("the one change that was tried did not win {objective} here"),
        n => format!("none of the {n} changes that were tried did win {objective} here"),
    }
}

/// The reason where no time was left for trials.
pub(crate) fn nothing_tried(could_help: usize) -> String {
    format!(
        "nothing was tried: --budget-time or --runs leave nothing for {} that could help",
        plural(could_help as u64, "change")
    )
}

/// Why nothing is tried where the most that could be won is next to nothing; `None` where there is something, or nobody
/// knows.
pub(crate) fn nothing_at_stake(account: Option<&AccountSummary>) -> Option<String> {
    let account = account?;
    is_nothing_to_win(account).then(|| {
        format!(
            "nothing to win: all that a setting could touch is {} of CPU time and {} of the time that passed",
            percent(account.ceiling.cpu),
            percent(account.ceiling.wall)
        )
    })
}

/// The reason why a plan is empty, in a line: the budget of memory, or else the time where that is known, or else the
/// shootdowns. It is for plans from which nothing was left out.
pub(crate) fn why_nothing(
    plan: &Plan,
    evidence: &Evidence,
    account: Option<&AccountSummary>,
) -> String {
    let seen = evidence.shootdowns;
    // A plan says these things in its notes only, so they are known by words of quell_remedy's.
    let set = plan.notes.iter().any(|n| n.contains("set already"));
    let leaves = |n: &String| n.contains("budget leaves");
    let dear = plan.notes.iter().any(leaves);
    if dear {
        return "settings that would help take more memory than the budget leaves, as the notes say: --budget P% allows more"
            .to_owned();
    }
    if let Some(account) = account.filter(|a| a.samples > 0 && !set) {
        return format!(
            "nothing to try: {} of CPU time could be touched by settings, but none that quell knows for the parts of this \
             program touches 1 % of the time",
            percent(account.ceiling.cpu)
        );
    }
    match seen {
        0 => "0 shootdowns in the observed run: nothing to stop".to_owned(),
        _ if seen < quell_remedy::FEW_SHOOTDOWNS => format!(
            "{} in the observed run: too few to gain anything (a plan needs {})",
            plural(seen, "shootdown"),
            quell_remedy::FEW_SHOOTDOWNS
        ),
        _ if set => "the settings that quell would choose are set already".to_owned(),
        _ => format!(
            "no setting that quell knows reaches the {} of the observed run",
            plural(seen, "shootdown")
        ),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::prove::metric;

    /// Pairs in which every metric goes from `before` to `after`, with a little scatter.
    pub(crate) fn scattered_pairs(
        pairs: usize,
        before: &[f64],
        after: &[f64],
    ) -> Vec<(RunSample, RunSample)> {
        let sample = |values: &[f64], i: usize| RunSample {
            values: values
                .iter()
                .map(|v| (v * (1.0 + 0.004 * (i % 5) as f64)).round())
                .collect(),
            complaints: vec![],
            estimated: false,
        };
        (0..pairs)
            .map(|i| (sample(before, i), sample(after, i * 3)))
            .collect()
    }

    /// Check that less is better, and that more is for a metric with `^=`.
    #[test]
    fn lower_is_better_unless_marked() {
        let metrics = metric::all_metrics(&["ops^=(.)".to_owned(), "p99=(.)".to_owned()]).unwrap();
        let before = [1000.0, 1000.0, 1e6, 1e5, 1e9, 2e9, 1e9, 1e8, 5000.0, 5000.0];
        let after = [100.0, 100.0, 1e5, 1e4, 5e8, 2e9, 1e9, 1e8, 9000.0, 5000.0];
        let (judged, overall) = judge_metrics(
            &metrics,
            &scattered_pairs(5, &before, &after),
            &Looks::once(5),
            1,
        );
        let words: Vec<_> = judged
            .iter()
            .map(|j| j.comparison.verdict.as_str())
            .collect();
        assert_eq!(words[..5], ["better"; 5]);
        assert_eq!(
            words[5..],
            [
                "no evidence",
                "no evidence",
                "no evidence",
                "better",
                "no evidence"
            ]
        );
        assert_eq!(overall.verdict, Verdict::Better);
    }

    /// Check that neither no pairs nor four of them claim anything.
    #[test]
    fn few_pairs() {
        let metrics = metric::all_metrics(&[]).unwrap();
        for pairs in [0, 1, 4] {
            let (judged, overall) = judge_metrics(
                &metrics,
                &scattered_pairs(pairs, &[1e4; 8], &[10.0; 8]),
                &Looks::once(pairs),
                1,
            );
            assert_eq!(overall.verdict, Verdict::NoEvidence);
            assert_eq!(judged.len(), 8);
        }
    }

    /// Check that the reason for an empty plan fits the evidence.
    #[test]
    fn reasons_for_an_empty_plan() {
        let why_nothing = |plan: &Plan, evidence: &Evidence| why_nothing(plan, evidence, None);
        let seen = |shootdowns| Evidence {
            shootdowns,
            ..Evidence::default()
        };
        let noted = |note: &str| Plan {
            notes: vec![note.to_owned()],
            ..Plan::default()
        };
        assert_eq!(
            why_nothing(&noted("x: nothing to gain"), &seen(0)),
            "0 shootdowns in the observed run: nothing to stop"
        );
        let account = AccountSummary {
            samples: 100,
            ceiling: quell_event::account::AccountCeiling {
                cpu: 0.071,
                wall: 0.08,
            },
            ..AccountSummary::default()
        };
        let by_time = super::why_nothing(&Plan::default(), &seen(3), Some(&account));
        assert!(
            by_time.starts_with("nothing to try: 7.1 % of CPU time"),
            "{by_time}"
        );
        let dear = "jemalloc.decay would stop 95 %, for 30 % more memory as predicted, and the budget leaves 25 %";
        let why = why_nothing(&noted(dear), &seen(21));
        assert!(why.contains("more memory than the budget leaves"), "{why}");
        assert_eq!(
            why_nothing(&noted("x: nothing to gain"), &seen(1)),
            "1 shootdown in the observed run: too few to gain anything (a plan needs 50)"
        );
        assert!(why_nothing(&noted("jemalloc: set already"), &seen(5000)).contains("already"));
        assert!(
            why_nothing(&Plan::default(), &seen(5000)).contains("reaches the 5,000 shootdowns")
        );
    }
}
