//! One experiment on both sides: its change, whether that may be claimed, and the conditions that differ.

use std::cmp::Ordering;

use quell_lab::arm::Arm;
use quell_lab::judge::LabVerdict;
use quell_lab::summary::{ExperimentSummary, IntervalSummary, MachineSummary, SettingsSummary};
use quell_stats::{MIN_RUNS, median, runs_apart};

use super::{
    BothSides, DifferingCondition, EffectChange, NamedResults, RatioedFigures, is_same_experiment,
};
use crate::show::units::time;

/// The runs of one experiment on one side.
#[derive(Clone, Debug)]
pub(super) struct ExperimentRuns<'a> {
    pub(super) first: &'a ExperimentSummary,
    pub(super) more: Vec<&'a ExperimentSummary>,
}

/// One experiment on both sides.
pub(super) type ExperimentPair<'a> = BothSides<ExperimentRuns<'a>>;

impl<'a> ExperimentRuns<'a> {
    /// A result of a side's first file, and the same experiment in its other files.
    pub(super) fn new(first: &'a ExperimentSummary, side: &[&'a NamedResults]) -> Self {
        let more = side.iter().skip(1).filter_map(|file| {
            let mut results = file.1.all.iter();
            results.find(|s| is_same_experiment(first, s))
        });
        Self {
            first,
            more: more.collect(),
        }
    }

    pub(super) fn len(&self) -> usize {
        1 + self.more.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &'a ExperimentSummary> {
        std::iter::once(self.first).chain(self.more.iter().copied())
    }

    /// A figure of each run that has it.
    fn figures(&self, of: impl Fn(&ExperimentSummary) -> Option<f64>) -> Vec<f64> {
        self.iter().filter_map(of).collect()
    }
}

impl<'a> ExperimentPair<'a> {
    pub(super) fn first_runs(&self) -> BothSides<&'a ExperimentSummary> {
        self.map(|runs| runs.first)
    }

    fn all_runs(&self) -> impl Iterator<Item = &'a ExperimentSummary> {
        self.a.iter().chain(self.b.iter())
    }

    /// A change is claimed only where there are runs enough to tell how they scatter, each side is alike, no run says that it
    /// can't tell, and chance would bring as much in one of a hundred comparisons of so many experiments at most.
    pub(super) fn claimed_change(&self, family: usize) -> (EffectChange, &'static str) {
        let none = |why| (EffectChange::None, why);
        if self.all_runs().any(|s| !s.verdict.is_answer()) {
            return none("a run was too noisy or too short to tell its effect");
        }
        if !self.all_runs().any(|s| s.verdict == LabVerdict::Shown) {
            return none("neither side stalls the victim");
        }
        if !self.unlike_runs().is_empty() {
            return none("the runs of one side were not measured alike");
        }
        if self.a.len().min(self.b.len()) < MIN_RUNS {
            return none(match self.change_of_first_runs() {
                EffectChange::More => {
                    "these two runs differ, more in B; whether as much as runs of one side do, two of each would say"
                }
                EffectChange::Less => {
                    "these two runs differ, less in B; whether as much as runs of one side do, two of each would say"
                }
                EffectChange::None => "the intervals of the two runs overlap",
            });
        }
        let costs = self.compared_costs();
        match runs_apart(&costs.a, &costs.b, family) {
            Some(Ordering::Greater) => (EffectChange::More, "by more than runs of one side differ"),
            Some(_) => (EffectChange::Less, "by more than runs of one side differ"),
            None => none("runs of one side differ as much"),
        }
    }

    /// The figures that a claim rests on: the logarithm of the cost of an operation, where each run has such a cost; else ppm.
    fn compared_costs(&self) -> BothSides<Vec<f64>> {
        let cost = |s: &ExperimentSummary| s.stall_ns_per_op().filter(|ns| *ns > 0.0);
        if self.all_runs().all(|s| cost(s).is_some()) {
            return self.map(|runs| runs.figures(|s| cost(s).map(f64::ln)));
        }
        self.map(|runs| runs.figures(|s| Some(s.effect.stall_ppm.difference)))
    }

    /// Whether the intervals of the first two runs lie apart. They hold the scatter within a run, and no more: two runs
    /// of the same thing may lie apart too. No change either where any run, also a later one, gave no answer.
    pub(super) fn change_of_first_runs(&self) -> EffectChange {
        let BothSides { a, b } = self.stall_ppm().sides;
        let below = |x: IntervalSummary, y: IntervalSummary| matches!((x.ci95.1, y.ci95.0), (Some(high), Some(low)) if high < low);
        match () {
            () if self.all_runs().any(|s| !s.verdict.is_answer()) => EffectChange::None,
            () if below(a, b) => EffectChange::More,
            () if below(b, a) => EffectChange::Less,
            () => EffectChange::None,
        }
    }

    /// The effects of the first runs. There is a ratio only where A has an effect: one to a figure that may be zero says nothing.
    pub(super) fn stall_ppm(&self) -> RatioedFigures<IntervalSummary> {
        let sides = self.map(|runs| runs.first.effect.stall_ppm);
        let has_effect = sides.a.ci95.0.is_some_and(|low| low > 0.0);
        let ratio = has_effect.then(|| sides.b.difference / sides.a.difference);
        RatioedFigures { sides, ratio }
    }

    /// The middle of each side's runs.
    fn median_figures(
        &self,
        of: impl Fn(&ExperimentSummary) -> Option<f64>,
    ) -> RatioedFigures<Option<f64>> {
        let sides = self.map(|runs| {
            let all = runs.figures(&of);
            (!all.is_empty()).then(|| median(&all))
        });
        let ratio = match (sides.a, sides.b) {
            (Some(a), Some(b)) if a > 0.0 => Some(b / a),
            _ => None,
        };
        RatioedFigures { sides, ratio }
    }

    pub(super) fn stall_ns_per_op(&self) -> RatioedFigures<Option<f64>> {
        self.median_figures(ExperimentSummary::stall_ns_per_op)
    }

    pub(super) fn shootdowns_per_op(&self) -> RatioedFigures<Option<f64>> {
        self.median_figures(|s| s.shootdowns_per_op)
    }

    pub(super) fn ns_per_event(&self) -> RatioedFigures<Option<f64>> {
        self.median_figures(|s| s.effect.ns_per_event)
    }

    pub(super) fn turn_p999_ns(&self) -> RatioedFigures<Option<f64>> {
        let real = Arm::Real.name();
        self.median_figures(|s| Some(*s.arms.get(real)?.turn_ns.get("p999")? as f64))
    }

    pub(super) fn op_p50_ns(&self) -> RatioedFigures<Option<f64>> {
        let real = Arm::Real.name();
        self.median_figures(|s| Some(s.arms.get(real)?.op_ns?.0 as f64))
    }

    /// Machine, kernel, places, parameters, settings: whatever is not alike in the first runs of the two sides.
    pub(super) fn differing_conditions(&self) -> Vec<DifferingCondition> {
        differing_conditions(self.a.first, self.b.first)
    }

    /// The same among the runs of one side.
    pub(super) fn unlike_runs(&self) -> Vec<DifferingCondition> {
        let sides = [&self.a, &self.b].into_iter();
        let others = sides.flat_map(|runs| runs.more.iter().map(|s| (runs.first, *s)));
        others
            .flat_map(|(first, other)| differing_conditions(first, other))
            .collect()
    }
}

fn differing_conditions(
    one: &ExperimentSummary,
    other: &ExperimentSummary,
) -> Vec<DifferingCondition> {
    let mut all = differing_of(&MACHINE_CONDITIONS, &one.machine, &other.machine);
    let mode = |s: &ExperimentSummary| format!("{:?}", s.victim).to_lowercase();
    all.extend(DifferingCondition::of_values(
        "victim",
        mode(one),
        mode(other),
    ));
    // Older files don't say how they were measured.
    if let (Some(a), Some(b)) = (&one.settings, &other.settings) {
        all.extend(differing_of(&SETTING_CONDITIONS, a, b));
        all.extend(differing_gap_limit(a.gap_limit_ns, b.gap_limit_ns));
    }
    let value = |s: &ExperimentSummary, name: &str| {
        let found = s.params.iter().find(|(n, _)| *n == name);
        found.map_or_else(|| "unset".to_owned(), |(_, v)| v.to_string())
    };
    let mut names: Vec<&str> = [one, other]
        .iter()
        .flat_map(|s| s.params.iter().map(|(name, _)| name))
        .collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let (a, b) = (value(one, name), value(other, name));
        all.extend(DifferingCondition::of_values(name, a, b));
    }
    all
}

/// A condition of a measurement: its name, and its value in words.
type Condition<T> = (&'static str, fn(&T) -> String);

/// The conditions of a machine.
pub(super) const MACHINE_CONDITIONS: [Condition<MachineSummary>; 6] = [
    ("kernel", |m| m.kernel.clone()),
    ("CPU", |m| m.cpu.clone()),
    ("number of CPUs", |m| m.cpus.to_string()),
    ("virtual machine", |m| {
        if m.virtual_machine { "yes" } else { "no" }.to_owned()
    }),
    ("victim's CPU", |m| m.victim_cpu.to_string()),
    ("culprit's CPU", |m| m.culprit_cpu.to_string()),
];

/// The settings but for the seed, which is another one in every run and only orders the arms, and for the limit of a gap.
const SETTING_CONDITIONS: [Condition<SettingsSummary>; 5] = [
    ("version of quell", |s| s.quell.clone()),
    ("block", |s| time(s.block_ns)),
    ("pace", |s| time(s.pace_ns)),
    ("budget", |s| time(s.budget_ns)),
    ("most rounds", |s| match s.rounds {
        0 => "any".to_owned(),
        n => n.to_string(),
    }),
];

/// Those of the conditions that differ.
pub(super) fn differing_of<T>(
    conditions: &[Condition<T>],
    a: &T,
    b: &T,
) -> Vec<DifferingCondition> {
    let found = conditions.iter();
    found
        .filter_map(|(what, value)| DifferingCondition::of_values(what, value(a), value(b)))
        .collect()
}

/// The limit of a gap is calibrated in every run, and wanders a little.
fn differing_gap_limit(a: u64, b: u64) -> Option<DifferingCondition> {
    let is_apart = a.abs_diff(b) > a.max(b) / 5;
    DifferingCondition::of_values("limit of a gap", time(a), time(b)).filter(|_| is_apart)
}
