//! An interval as one JSON object: `quell/tally/1`, and the parts that only the live view has.

use anyhow::Context as _;
use quell_event::TallySummary;
use serde::Serialize;

use super::alarm::IsolatedCpuAlarm;
use super::close_up::ProcessCloseUp;
use super::interval::LiveInterval;
use super::regions::SampledRegions;

/// The hits between each pair of CPUs, of the whole machine.
#[derive(Debug, Serialize)]
struct HitMatrix<'a> {
    /// The CPUs that are online; rows and columns have this order.
    cpus: &'a [u32],
    /// A row for each culprit's CPU has a number for each victim's CPU.
    hits: Vec<Vec<u32>>,
}

#[derive(Debug, Serialize)]
struct IntervalDocument<'a> {
    #[serde(flatten)]
    summary: &'a TallySummary,
    matrix: HitMatrix<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    isolated: Option<&'a IsolatedCpuAlarm>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sampled: Option<&'a SampledRegions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    process: Option<&'a ProcessCloseUp>,
}

/// Writes the object in one line.
///
/// # Errors
///
/// If it can't be written, which no interval does.
pub(crate) fn interval_json(interval: &LiveInterval) -> anyhow::Result<String> {
    let cpus = &interval.online[..];
    let row = |&c: &u32| {
        let hits = cpus
            .iter()
            .map(|&v| interval.matrix.hits_between(c as usize, v as usize));
        hits.collect()
    };
    let object = IntervalDocument {
        summary: &interval.summary,
        matrix: HitMatrix {
            cpus,
            hits: cpus.iter().map(row).collect(),
        },
        isolated: interval.alarm.as_ref(),
        sampled: interval.regions.as_ref(),
        process: interval.close_up.as_ref(),
    };
    serde_json::to_string(&object).context("writing an interval as JSON")
}
