//! Two result files side by side: kernels, machines or settings.

mod json;
#[cfg(test)]
mod tests;
mod text;

use quell_lab::block::Arm;
use quell_lab::summary::{Interval, Summary};
use serde::Serialize;

use super::Results;
use crate::show::table::plain;

pub(crate) use json::json;
pub(crate) use text::text;

/// Both files.
pub(crate) struct Comparison<'a> {
    /// As they were named.
    a: String,
    b: String,
    /// How many results each holds.
    many: (usize, usize),
    /// Each experiment that is in both, in A's order.
    pairs: Vec<Pair<'a>>,
    only_a: Vec<&'a str>,
    only_b: Vec<&'a str>,
}

/// One experiment in both.
#[derive(Clone, Copy)]
struct Pair<'a> {
    a: &'a Summary,
    b: &'a Summary,
}

/// What can be said of the effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Change {
    /// More stall in B.
    More,
    /// Less.
    Less,
    /// Nothing is claimed.
    None,
}

/// What is not alike, so that a change may have another reason.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Differs {
    what: String,
    a: String,
    b: String,
}

/// Something that was measured on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Figure {
    a: Option<f64>,
    b: Option<f64>,
    /// B by A; none where A has nothing to compare with.
    ratio: Option<f64>,
}

impl Figure {
    fn new(a: Option<f64>, b: Option<f64>) -> Self {
        let ratio = match (a, b) {
            (Some(a), Some(b)) if a > 0.0 => Some(b / a),
            _ => None,
        };
        Self { a, b, ratio }
    }
}

impl<'a> Comparison<'a> {
    /// Lays the results of one name beside each other; where there are several of a name, those with the same
    /// parameters first.
    pub(crate) fn new(a: (String, &'a Results), b: (String, &'a Results)) -> Self {
        let mut left: Vec<Option<&Summary>> = b.1.all.iter().map(Some).collect();
        let mut find = |alike: &dyn Fn(&Summary) -> bool| {
            let found = left.iter_mut().find(|s| s.is_some_and(alike));
            found.and_then(Option::take)
        };
        let mut found: Vec<(&Summary, Option<&Summary>)> = Vec::new();
        for s in &a.1.all {
            let same = |o: &Summary| {
                o.experiment == s.experiment && o.params == s.params && o.victim == s.victim
            };
            found.push((s, find(&same)));
        }
        for (s, other) in found.iter_mut().filter(|(_, other)| other.is_none()) {
            *other = find(&|o: &Summary| o.experiment == s.experiment);
        }
        Self {
            many: (a.1.all.len(), b.1.all.len()),
            pairs: found
                .iter()
                .filter_map(|(a, b)| b.map(|b| Pair { a, b }))
                .collect(),
            only_a: found
                .iter()
                .filter(|(_, b)| b.is_none())
                .map(|(a, _)| a.experiment.as_str())
                .collect(),
            only_b: left
                .iter()
                .flatten()
                .map(|s| s.experiment.as_str())
                .collect(),
            a: a.0,
            b: b.0,
        }
    }

    /// Is there nothing to compare?
    pub(crate) fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// What each side has, and the other has not.
    pub(crate) fn apart(&self) -> (String, String) {
        (
            plain(&self.only_a.join(", ")),
            plain(&self.only_b.join(", ")),
        )
    }
}

impl Pair<'_> {
    /// A change is claimed only where the intervals of the effect are apart, and neither side says that it can't tell.
    fn change(&self) -> (Change, &'static str) {
        let (a, b) = (self.stall(self.a), self.stall(self.b));
        if [self.a, self.b]
            .map(|s| s.verdict)
            .iter()
            .any(|v| !v.is_answer())
        {
            return (Change::None, "a side was too noisy to tell its effect");
        }
        let below = |x: Interval, y: Interval| matches!((x.ci95.1, y.ci95.0), (Some(high), Some(low)) if high < low);
        if below(a, b) {
            return (Change::More, "the intervals of the effect are apart");
        }
        if below(b, a) {
            return (Change::Less, "the intervals of the effect are apart");
        }
        (Change::None, "the intervals of the effect overlap")
    }

    fn stall(&self, s: &Summary) -> Interval {
        s.effect.stall_ppm
    }

    /// Of the effect only where A has one: the ratio to what may be nothing says nothing.
    fn stall_ratio(&self) -> Option<f64> {
        let (a, b) = (self.stall(self.a), self.stall(self.b));
        let has_effect = a.ci95.0.is_some_and(|low| low > 0.0);
        has_effect.then(|| b.difference / a.difference)
    }

    fn figure(&self, of: impl Fn(&Summary) -> Option<f64>) -> Figure {
        Figure::new(of(self.a), of(self.b))
    }

    fn shootdowns_per_op(&self) -> Figure {
        self.figure(|s| s.shootdowns_per_op)
    }

    fn ns_per_event(&self) -> Figure {
        self.figure(|s| s.effect.ns_per_event)
    }

    fn turn_p999_ns(&self) -> Figure {
        let real = Arm::Real.name();
        self.figure(|s| Some(*s.arms.get(real)?.turn_ns.get("p999")? as f64))
    }

    fn op_p50_ns(&self) -> Figure {
        let real = Arm::Real.name();
        self.figure(|s| Some(s.arms.get(real)?.op_ns?.0 as f64))
    }

    /// Machine, kernel, places, parameters: whatever is not alike.
    fn differs(&self) -> Vec<Differs> {
        let mut all = Vec::new();
        let mut told = |what: &str, a: String, b: String| {
            if a != b {
                let what = what.to_owned();
                all.push(Differs { what, a, b });
            }
        };
        let (a, b) = (&self.a.machine, &self.b.machine);
        told("kernel", a.kernel.clone(), b.kernel.clone());
        told("CPU", a.cpu.clone(), b.cpu.clone());
        told("CPUs", a.cpus.to_string(), b.cpus.to_string());
        let vm = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
        let (vm_a, vm_b) = (vm(a.virtual_machine), vm(b.virtual_machine));
        told("virtual machine", vm_a, vm_b);
        let cpu = |n: u32| n.to_string();
        told("victim's CPU", cpu(a.victim_cpu), cpu(b.victim_cpu));
        told("culprit's CPU", cpu(a.culprit_cpu), cpu(b.culprit_cpu));
        let mode = |s: &Summary| format!("{:?}", s.victim).to_lowercase();
        told("victim", mode(self.a), mode(self.b));
        let value = |s: &Summary, name: &str| {
            let found = s.params.iter().find(|(n, _)| *n == name);
            found.map_or_else(|| "unset".to_owned(), |(_, v)| v.to_string())
        };
        let mut names: Vec<&str> = [self.a, self.b]
            .iter()
            .flat_map(|s| s.params.iter().map(|(name, _)| name))
            .collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            told(name, value(self.a, name), value(self.b, name));
        }
        all
    }
}
