//! An interval as one JSON object: `quell/tally/1`, and the parts that only the live view has.

use anyhow::Context as _;
use serde_json::json;

use super::interval::LiveInterval;

/// Writes the object in one line.
///
/// # Errors
///
/// If it can't be written, which no interval does.
pub(crate) fn interval_json(interval: &LiveInterval) -> anyhow::Result<String> {
    let cpus = &interval.online[..];
    let hits_of = |culprit: &u32| -> Vec<u32> {
        let hits = cpus.iter().map(|victim| {
            let (culprit, victim) = (*culprit as usize, *victim as usize);
            interval.matrix.hits_between(culprit, victim)
        });
        hits.collect()
    };
    let mut object =
        serde_json::to_value(&interval.summary).context("writing an interval as JSON")?;
    // The hits between each pair of CPUs that are online, of the whole machine: a row for each culprit's CPU has a number for
    // each victim's CPU.
    object["matrix"] = json!({"cpus": cpus, "hits": cpus.iter().map(hits_of).collect::<Vec<_>>()});
    if let Some(alarm) = &interval.alarm {
        object["isolated"] = json!(alarm);
    }
    if let Some(regions) = &interval.regions {
        object["sampled"] = json!(regions);
    }
    if let Some(close_up) = &interval.close_up {
        object["process"] = json!(close_up);
    }
    Ok(object.to_string())
}
