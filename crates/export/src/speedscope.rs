//! speedscope: a "sampled" profile in the file format that
//! <https://www.speedscope.app/file-format-schema.json> describes.

use std::io::Write;

use anyhow::Context as _;
use indexmap::IndexSet;
use serde::Serialize;

use crate::samples::{self, SampleSums};
use crate::{Rows, SampleWeight, Stacks};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SpeedscopeFile<'a> {
    #[serde(rename = "$schema")]
    schema: &'a str,
    name: &'a str,
    exporter: String,
    active_profile_index: u32,
    shared: SharedFrames,
    profiles: [SpeedscopeProfile<'a>; 1],
}

#[derive(Serialize)]
struct SharedFrames {
    frames: Vec<NamedFrame>,
}

#[derive(PartialEq, Eq, Hash, Serialize)]
struct NamedFrame {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SpeedscopeProfile<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    name: &'a str,
    unit: &'a str,
    start_value: u64,
    end_value: u64,
    samples: Vec<Vec<usize>>,
    weights: Vec<u64>,
}

/// Writes one profile: a sample for each thread name, stack and cause, from the name inwards to the
/// cause. Weights are ns, or shootdowns.
///
/// # Errors
///
/// If the trace can't be read or `out` can't be written.
pub fn write(
    rows: &Rows<'_>,
    stacks: &Stacks,
    weight: SampleWeight,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let mut frames: IndexSet<NamedFrame> = IndexSet::new();
    let mut number_of = |name, file| frames.insert_full(NamedFrame { name, file }).0;
    let (mut samples, mut weights) = (Vec::new(), Vec::new());
    for (origin, sums) in samples::sum_of(rows, weight)? {
        let mut sample = vec![number_of(origin.comm.as_text().into_owned(), None)];
        for frame in origin.frames(stacks) {
            sample.push(number_of(frame.to_string(), frame.module.clone()));
        }
        for what in origin.what.frames() {
            sample.push(number_of(what, None));
        }
        samples.push(sample);
        weights.push(SampleSums::weight_of(&sums, weight));
    }
    let (name, unit) = match weight {
        SampleWeight::Wait => ("wait of culprits", "nanoseconds"),
        SampleWeight::Count => ("shootdowns", "none"),
        SampleWeight::Stall => ("stall of victims", "nanoseconds"),
        SampleWeight::Cpu => ("CPU time of memory management", "nanoseconds"),
        SampleWeight::Blocked => ("time asleep because of memory management", "nanoseconds"),
    };
    let file = SpeedscopeFile {
        schema: "https://www.speedscope.app/file-format-schema.json",
        name: if weight.is_of_account() {
            "memory management"
        } else {
            "TLB shootdowns"
        },
        exporter: format!("quell {}", env!("CARGO_PKG_VERSION")),
        active_profile_index: 0,
        shared: SharedFrames {
            frames: frames.into_iter().collect(),
        },
        profiles: [SpeedscopeProfile {
            kind: "sampled",
            name,
            unit,
            start_value: 0,
            end_value: weights.iter().fold(0, |a, w| a.saturating_add(*w)),
            samples,
            weights,
        }],
    };
    serde_json::to_writer(&mut *out, &file).context("can't write the speedscope profile")?;
    out.write_all(b"\n")
        .context("can't write the speedscope profile")
}
