//! Result files side by side, one or several runs of each: kernels, machines or settings.

mod curves;
mod json;
mod pair;
#[cfg(test)]
mod tests;
mod text;

use quell_lab::summary::ExperimentSummary;
use serde::Serialize;

use super::Results;
use crate::show::table::plain;

pub(crate) use curves::{CurveComparison, NamedCurves};
pub(crate) use json::comparison_object;
use pair::{ExperimentPair, ExperimentRuns};
pub(crate) use text::comparison_text;

/// The same of both sides.
#[derive(Clone, Copy, Debug, Serialize)]
struct BothSides<T> {
    a: T,
    b: T,
}

impl<T> BothSides<T> {
    fn map<U>(&self, of: impl Fn(&T) -> U) -> BothSides<U> {
        BothSides {
            a: of(&self.a),
            b: of(&self.b),
        }
    }
}

/// Figures of both sides, and B by A.
#[derive(Debug, Serialize)]
struct RatioedFigures<T> {
    #[serde(flatten)]
    sides: BothSides<T>,
    /// None where A has nothing to compare with.
    ratio: Option<f64>,
}

/// All results of both sides.
pub(crate) struct Comparison<'a> {
    /// The files as they were named, and how many results each holds.
    files: BothSides<Vec<ComparedFile<'a>>>,
    /// Each experiment that is on both, in the order of A's first file.
    pairs: Vec<ExperimentPair<'a>>,
    /// The experiments that only one side has.
    only: BothSides<Vec<&'a str>>,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct ComparedFile<'a> {
    path: &'a str,
    experiments: usize,
}

/// The change of the effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum EffectChange {
    /// There is more stall in B.
    More,
    /// There is less.
    Less,
    /// Nothing is claimed.
    None,
}

/// A condition that differs, so that a change may have another reason.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct DifferingCondition {
    what: String,
    a: String,
    b: String,
}

impl DifferingCondition {
    /// The condition and its two values, if they differ.
    fn of_values(what: &str, a: String, b: String) -> Option<Self> {
        let what = what.to_owned();
        (a != b).then_some(Self { what, a, b })
    }

    /// A line for people; `among` says between which runs.
    fn describe(&self, among: &str) -> String {
        plain(&format!(
            "  the {} is not the same{among}: {} and {}",
            self.what, self.a, self.b
        ))
    }
}

/// A file: its name and its results.
pub(crate) type NamedResults = (String, Results);

impl<'a> Comparison<'a> {
    /// Lays the results of one name beside each other; where there are several of a name, those with the same parameters first.
    /// The first file of a side lists the results, the rest are more runs of them.
    pub(crate) fn new(a: &[&'a NamedResults], b: &[&'a NamedResults]) -> Self {
        let first = |side: &[&'a NamedResults]| side.first().map_or(&[][..], |f| &f.1.all[..]);
        let mut left: Vec<Option<&ExperimentSummary>> = first(b).iter().map(Some).collect();
        let mut find = |alike: &dyn Fn(&ExperimentSummary) -> bool| {
            let found = left.iter_mut().find(|s| s.is_some_and(alike));
            found.and_then(Option::take)
        };
        let mut found: Vec<(&ExperimentSummary, Option<&ExperimentSummary>)> = Vec::new();
        for s in first(a) {
            found.push((s, find(&|other| is_same_experiment(s, other))));
        }
        for (s, other) in found.iter_mut().filter(|(_, other)| other.is_none()) {
            *other = find(&|o| o.experiment == s.experiment);
        }
        let both = found.iter().filter_map(|(s, other)| {
            Some(BothSides {
                a: ExperimentRuns::new(s, a),
                b: ExperimentRuns::new((*other)?, b),
            })
        });
        let only_a = found.iter().filter(|(_, other)| other.is_none());
        let only_b = left.iter().flatten();
        Self {
            pairs: both.collect(),
            only: BothSides {
                a: only_a.map(|(s, _)| s.experiment.as_str()).collect(),
                b: only_b.map(|s| s.experiment.as_str()).collect(),
            },
            files: BothSides { a, b }.map(|side| {
                let file = |(path, results): &&'a NamedResults| ComparedFile {
                    path,
                    experiments: results.all.len(),
                };
                side.iter().map(file).collect()
            }),
        }
    }

    /// Whether there is nothing to compare.
    pub(crate) fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// The results that only one side has, for each side.
    pub(crate) fn names_of_one_side(&self) -> (String, String) {
        let names = self.only.map(|names| plain(&names.join(", ")));
        (names.a, names.b)
    }
}

/// Whether two results are of the same experiment with the same parameters and the same victim.
fn is_same_experiment(s: &ExperimentSummary, other: &ExperimentSummary) -> bool {
    s.experiment == other.experiment && s.params == other.params && s.victim == other.victim
}
