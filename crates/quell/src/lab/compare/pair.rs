//! One experiment on both sides: its change, whether that may be claimed, and the conditions that differ.

use std::cmp::Ordering;

use quell_lab::arm::Arm;
use quell_lab::judge::LabVerdict;
use quell_lab::summary::{ExperimentSummary, IntervalSummary, MachineSummary, SettingsSummary};
use quell_stats::{MIN_RUNS, median, runs_apart};

use super::{Change, Differs, Figure, Pair};
use crate::show::units::time;

impl<'a> Pair<'a> {
    pub(super) fn runs_a(&self) -> impl Iterator<Item = &'a ExperimentSummary> {
        std::iter::once(self.a).chain(self.more_a.iter().copied())
    }

    pub(super) fn runs_b(&self) -> impl Iterator<Item = &'a ExperimentSummary> {
        std::iter::once(self.b).chain(self.more_b.iter().copied())
    }

    fn runs(&self) -> impl Iterator<Item = &'a ExperimentSummary> {
        self.runs_a().chain(self.runs_b())
    }

    /// A change is claimed only where there are runs enough to tell how they scatter, each side is alike, no run says that it
    /// can't tell, and chance would bring as much in one of a hundred comparisons of so many experiments at most.
    pub(super) fn change(&self, family: usize) -> (Change, &'static str) {
        if self.runs().any(|s| !s.verdict.is_answer()) {
            return (Change::None, "a side was too noisy to tell its effect");
        }
        if !self.runs().any(|s| s.verdict == LabVerdict::Shown) {
            return (Change::None, "neither side stalls the victim");
        }
        if !self.not_alike().is_empty() {
            return (Change::None, "the runs of one side were not measured alike");
        }
        let least = (1 + self.more_a.len()).min(1 + self.more_b.len());
        if least < MIN_RUNS {
            let why = match self.within() {
                Change::More => {
                    "these two runs differ, more in B; whether as much as runs of one side do, two of each would say"
                }
                Change::Less => {
                    "these two runs differ, less in B; whether as much as runs of one side do, two of each would say"
                }
                Change::None => "the intervals of the two runs overlap",
            };
            return (Change::None, why);
        }
        let (a, b) = self.measure();
        match runs_apart(&a, &b, family) {
            Some(Ordering::Greater) => (Change::More, "by more than runs of one side differ"),
            Some(_) => (Change::Less, "by more than runs of one side differ"),
            None => (Change::None, "runs of one side differ as much"),
        }
    }

    /// The figures that a claim rests on: the logarithm of the cost of an operation, where each run has such a cost; else ppm.
    fn measure(&self) -> (Vec<f64>, Vec<f64>) {
        let costs = |s: &ExperimentSummary| s.stall_ns_per_op().filter(|ns| *ns > 0.0);
        if self.runs().all(|s| costs(s).is_some()) {
            let log = |s: &ExperimentSummary| costs(s).map(f64::ln);
            return (
                self.runs_a().filter_map(log).collect(),
                self.runs_b().filter_map(log).collect(),
            );
        }
        let ppm = |s: &ExperimentSummary| s.effect.stall_ppm.difference;
        (
            self.runs_a().map(ppm).collect(),
            self.runs_b().map(ppm).collect(),
        )
    }

    /// Whether the intervals of the first two runs lie apart. They hold the scatter within a run, and no more: two runs
    /// of the same thing may lie apart too.
    pub(super) fn within(&self) -> Change {
        let (a, b) = (self.stall(self.a), self.stall(self.b));
        let below = |x: IntervalSummary, y: IntervalSummary| matches!((x.ci95.1, y.ci95.0), (Some(high), Some(low)) if high < low);
        match () {
            () if self.runs().any(|s| !s.verdict.is_answer()) => Change::None,
            () if below(a, b) => Change::More,
            () if below(b, a) => Change::Less,
            () => Change::None,
        }
    }

    pub(super) fn stall(&self, s: &ExperimentSummary) -> IntervalSummary {
        s.effect.stall_ppm
    }

    /// The ratio of the effects, only where A has one: a ratio to a figure that may be zero says nothing.
    pub(super) fn stall_ratio(&self) -> Option<f64> {
        let (a, b) = (self.stall(self.a), self.stall(self.b));
        let has_effect = a.ci95.0.is_some_and(|low| low > 0.0);
        has_effect.then(|| b.difference / a.difference)
    }

    /// The middle of each side's runs.
    fn figure(&self, of: impl Fn(&ExperimentSummary) -> Option<f64>) -> Figure {
        let middle = |all: Vec<f64>| (!all.is_empty()).then(|| median(&all));
        Figure::new(
            middle(self.runs_a().filter_map(&of).collect()),
            middle(self.runs_b().filter_map(&of).collect()),
        )
    }

    pub(super) fn stall_ns_per_op(&self) -> Figure {
        self.figure(ExperimentSummary::stall_ns_per_op)
    }

    pub(super) fn shootdowns_per_op(&self) -> Figure {
        self.figure(|s| s.shootdowns_per_op)
    }

    pub(super) fn ns_per_event(&self) -> Figure {
        self.figure(|s| s.effect.ns_per_event)
    }

    pub(super) fn turn_p999_ns(&self) -> Figure {
        let real = Arm::Real.name();
        self.figure(|s| Some(*s.arms.get(real)?.turn_ns.get("p999")? as f64))
    }

    pub(super) fn op_p50_ns(&self) -> Figure {
        let real = Arm::Real.name();
        self.figure(|s| Some(s.arms.get(real)?.op_ns?.0 as f64))
    }

    /// Machine, kernel, places, parameters, settings: whatever is not alike on the two sides.
    pub(super) fn differs(&self) -> Vec<Differs> {
        differs(self.a, self.b)
    }

    /// The same among the runs of one side.
    pub(super) fn not_alike(&self) -> Vec<Differs> {
        let of_a = self.more_a.iter().flat_map(|s| differs(self.a, s));
        let of_b = self.more_b.iter().flat_map(|s| differs(self.b, s));
        of_a.chain(of_b).collect()
    }
}

fn differs(one: &ExperimentSummary, other: &ExperimentSummary) -> Vec<Differs> {
    let mut all = Vec::new();
    let mut told = |what: &str, a: String, b: String| {
        if a != b {
            let what = what.to_owned();
            all.push(Differs { what, a, b });
        }
    };
    machines(&one.machine, &other.machine, &mut told);
    let mode = |s: &ExperimentSummary| format!("{:?}", s.victim).to_lowercase();
    told("victim", mode(one), mode(other));
    // older files don't say how they were measured
    if let (Some(a), Some(b)) = (&one.settings, &other.settings) {
        settings(a, b, &mut told);
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
        told(name, value(one, name), value(other, name));
    }
    all
}

/// The differences between the machines of both.
pub(super) fn machines(
    a: &MachineSummary,
    b: &MachineSummary,
    told: &mut impl FnMut(&str, String, String),
) {
    told("kernel", a.kernel.clone(), b.kernel.clone());
    told("CPU", a.cpu.clone(), b.cpu.clone());
    told("number of CPUs", a.cpus.to_string(), b.cpus.to_string());
    let vm = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
    let (vm_a, vm_b) = (vm(a.virtual_machine), vm(b.virtual_machine));
    told("virtual machine", vm_a, vm_b);
    let cpu = |n: u32| n.to_string();
    told("victim's CPU", cpu(a.victim_cpu), cpu(b.victim_cpu));
    told("culprit's CPU", cpu(a.culprit_cpu), cpu(b.culprit_cpu));
}

/// All but the seed, which is another one in every run and only orders the arms.
fn settings(a: &SettingsSummary, b: &SettingsSummary, told: &mut impl FnMut(&str, String, String)) {
    told("version of quell", a.quell.clone(), b.quell.clone());
    told("block", time(a.block_ns), time(b.block_ns));
    told("pace", time(a.pace_ns), time(b.pace_ns));
    told("budget", time(a.budget_ns), time(b.budget_ns));
    let most = |n: usize| {
        if n == 0 {
            "any".to_owned()
        } else {
            n.to_string()
        }
    };
    told("most rounds", most(a.rounds), most(b.rounds));
    // calibrated in every run: it wanders a little
    let (least, most) = (
        a.gap_limit_ns.min(b.gap_limit_ns),
        a.gap_limit_ns.max(b.gap_limit_ns),
    );
    if most - least > most / 5 {
        told("limit of a gap", time(a.gap_limit_ns), time(b.gap_limit_ns));
    }
}
