//! An interval as one JSON object: `quell/tally/1`, and what only the live view has.

use anyhow::Context as _;
use quell_event::TallySummary;
use serde::Serialize;

use super::alarm::Alarm;
use super::detail::Detail;
use super::regions::Regions;
use super::sample::Sample;

/// Who interrupted whom, by CPU: of the whole machine.
#[derive(Debug, Serialize)]
struct Hits<'a> {
    /// The CPUs that are online: those of the rows, and of the columns.
    cpus: &'a [u32],
    /// A row for each culprit's CPU, in it a number for each victim's.
    hits: Vec<Vec<u32>>,
}

#[derive(Debug, Serialize)]
struct Interval<'a> {
    #[serde(flatten)]
    summary: &'a TallySummary,
    matrix: Hits<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    isolated: Option<&'a Alarm>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sampled: Option<&'a Regions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    process: Option<&'a Detail>,
}

/// The object, in one line.
///
/// # Errors
///
/// If it can't be written, which no interval does.
pub(crate) fn json(sample: &Sample) -> anyhow::Result<String> {
    let cpus = &sample.online[..];
    let row = |&c: &u32| {
        let hits = cpus
            .iter()
            .map(|&v| sample.matrix.hits_between(c as usize, v as usize));
        hits.collect()
    };
    let interval = Interval {
        summary: &sample.summary,
        matrix: Hits {
            cpus,
            hits: cpus.iter().map(row).collect(),
        },
        isolated: sample.alarm.as_ref(),
        sampled: sample.regions.as_ref(),
        process: sample.detail.as_ref(),
    };
    serde_json::to_string(&interval).context("writing an interval as JSON")
}
