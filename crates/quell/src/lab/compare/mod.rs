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
pub(crate) use text::comparison_text;

/// Both sides.
pub(crate) struct Comparison<'a> {
    /// The files as they were named, and how many results each holds.
    a: Vec<File<'a>>,
    b: Vec<File<'a>>,
    /// Each experiment that is on both, in the order of A's first file.
    pairs: Vec<Pair<'a>>,
    only_a: Vec<&'a str>,
    only_b: Vec<&'a str>,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct File<'a> {
    path: &'a str,
    experiments: usize,
}

/// One experiment on both: its first run, and more of the same.
#[derive(Clone)]
struct Pair<'a> {
    a: &'a ExperimentSummary,
    b: &'a ExperimentSummary,
    more_a: Vec<&'a ExperimentSummary>,
    more_b: Vec<&'a ExperimentSummary>,
}

/// The change of the effect.
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

/// A condition that differs, so that a change may have another reason.
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

/// The same experiment in the other files of a side.
fn again<'a>(side: &[&'a NamedResults], first: &ExperimentSummary) -> Vec<&'a ExperimentSummary> {
    let same = |s: &&ExperimentSummary| {
        s.experiment == first.experiment && s.params == first.params && s.victim == first.victim
    };
    let others = side.iter().skip(1);
    others.filter_map(|f| f.1.all.iter().find(same)).collect()
}

/// A file: its name and its results.
pub(crate) type NamedResults = (String, Results);

impl<'a> Comparison<'a> {
    /// Lays the results of one name beside each other; where there are several of a name, those with the same parameters first.
    /// The first file of a side lists the results, the rest are more runs of them.
    pub(crate) fn new(a: &[&'a NamedResults], b: &[&'a NamedResults]) -> Self {
        let of = |side: &[&'a NamedResults]| -> Vec<File<'a>> {
            let file = |(path, results): &&'a Named| File {
                path,
                experiments: results.all.len(),
            };
            side.iter().map(file).collect()
        };
        let first =
            |side: &[&'a NamedResults]| side.first().map_or(&[][..], |f| f.1.all.as_slice());
        let (first_a, first_b) = (first(a), first(b));
        let mut left: Vec<Option<&ExperimentSummary>> = first_b.iter().map(Some).collect();
        let mut find = |alike: &dyn Fn(&ExperimentSummary) -> bool| {
            let found = left.iter_mut().find(|s| s.is_some_and(alike));
            found.and_then(Option::take)
        };
        let mut found: Vec<(&ExperimentSummary, Option<&ExperimentSummary>)> = Vec::new();
        for s in first_a {
            let same = |o: &ExperimentSummary| {
                o.experiment == s.experiment && o.params == s.params && o.victim == s.victim
            };
            found.push((s, find(&same)));
        }
        for (s, other) in found.iter_mut().filter(|(_, other)| other.is_none()) {
            *other = find(&|o: &ExperimentSummary| o.experiment == s.experiment);
        }
        Self {
            pairs: found
                .iter()
                .filter_map(|(x, y)| {
                    let y = (*y)?;
                    Some(Pair {
                        a: x,
                        b: y,
                        more_a: again(a, x),
                        more_b: again(b, y),
                    })
                })
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
            a: of(a),
            b: of(b),
        }
    }

    /// Is there nothing to compare?
    pub(crate) fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// The results that only one side has, for each side.
    pub(crate) fn apart(&self) -> (String, String) {
        (
            plain(&self.only_a.join(", ")),
            plain(&self.only_b.join(", ")),
        )
    }
}
