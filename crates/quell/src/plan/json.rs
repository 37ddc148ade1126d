//! Plans in JSON.

use std::collections::BTreeMap;

use quell_remedy::{Planned, RemedyCeiling};
use serde::Serialize;

/// One remedy of a plan, as `quell plan --json` and `quell prove --json` have it.
#[derive(Serialize)]
pub(crate) struct PlannedJson<'a> {
    remedy: &'a str,
    sets: &'a BTreeMap<String, String>,
    starts: &'a BTreeMap<String, String>,
    evidence: &'a str,
    predicted_stop: f64,
    cost: &'a str,
    /// The time of the observed run that it touches; null where there is no account.
    ceiling: Option<RemedyCeiling>,
    touches: &'a str,
    /// The change of CPU time, from the least to the most, in 90 of 100 cases.
    predicted: Option<[f64; 2]>,
}

impl<'a> From<&'a Planned> for PlannedJson<'a> {
    fn from(p: &'a Planned) -> Self {
        Self {
            remedy: &p.remedy,
            sets: &p.sets,
            starts: &p.starts,
            evidence: &p.evidence,
            predicted_stop: p.predicted_stop,
            cost: &p.cost,
            ceiling: p.ceiling,
            touches: &p.touches,
            predicted: p.predicted,
        }
    }
}
