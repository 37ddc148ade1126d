//! pprof: a gzipped `profile.proto` with a sample for each stack, cause and thread name.

mod code;
pub(crate) mod proto;

use std::io::Write;

use anyhow::Context as _;
use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message as _;

use crate::samples::{self, Origin, Sums, What};
use crate::{Rows, Stacks, Weight};
use code::Code;
use proto::{Label, Profile, Sample, ValueType};

/// The sample types, in the order of the values of a sample.
const TYPES: [(Weight, &str, &str); 5] = [
    (Weight::Count, "shootdowns", "count"),
    (Weight::Wait, "wait", "nanoseconds"),
    (Weight::Stall, "stall", "nanoseconds"),
    (Weight::Cpu, "cpu", "nanoseconds"),
    (Weight::Blocked, "blocked", "nanoseconds"),
];

/// Writes the profile. It has all weights; `weight` is the one that a reader shows if not told.
///
/// # Errors
///
/// If the trace can't be read or `out` can't be written.
pub fn write(
    rows: &Rows<'_>,
    stacks: &Stacks,
    weight: Weight,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let processes = rows.trace().processes()?.rows;
    let mut code = Code::new(&processes);
    let mut sums = samples::sum(rows)?;
    sums.extend(samples::account(rows)?);
    let sample = sums
        .iter()
        .map(|(origin, sums)| sample(origin, sums, stacks, &mut code))
        .collect();
    let mut profile = Profile {
        sample,
        default_sample_type: code.string(named(weight)),
        sample_type: TYPES
            .iter()
            .map(|(_, kind, unit)| ValueType {
                kind: code.string(kind),
                unit: code.string(unit),
            })
            .collect(),
        comment: vec![code.string(&format!("quell {}", env!("CARGO_PKG_VERSION")))],
        ..Profile::default()
    };
    let meta = rows.meta();
    profile.time_nanos = signed(meta.start_wall_ns);
    if let Some(ended) = meta.ended {
        let duration = ended.monotonic_ns.saturating_sub(meta.start_monotonic_ns);
        profile.duration_nanos = signed(duration);
    }
    profile.period_type = profile.sample_type.first().copied();
    profile.period = 1;
    code.into_profile(&mut profile);
    let mut gzip = GzEncoder::new(out, Compression::default());
    gzip.write_all(&profile.encode_to_vec())
        .and_then(|()| gzip.finish())
        .context("can't write the profile")?;
    Ok(())
}

fn named(weight: Weight) -> &'static str {
    let found = TYPES.iter().find(|(w, _, _)| *w == weight);
    found.map_or("", |(_, name, _)| name)
}

fn sample(origin: &Origin, sums: &Sums, stacks: &Stacks, code: &mut Code<'_>) -> Sample {
    let of = |id| stacks.get(&id).map_or(&[][..], |s| &s.frames);
    let user = of(origin.user_stack).iter();
    let kernel = of(origin.kernel_stack).iter();
    // The program's first, so that its file comes before the kernel: readers name a profile by it.
    let user: Vec<u64> = user.map(|f| code.location(Some(origin.pid), f)).collect();
    let mut locations: Vec<u64> = kernel.map(|f| code.location(None, f)).collect();
    locations.extend(user);
    if locations.is_empty() {
        locations.push(code.nowhere());
    }
    let what = match origin.what {
        What::Shootdown(_) => "cause",
        What::Memory(..) => "mechanism",
    };
    let (comm, pid) = (origin.comm.text(), origin.pid.to_string());
    let labels = [
        Some((what, origin.what.name())),
        origin.what.part().map(|part| ("part", part)),
        Some(("comm", &*comm)),
        Some(("pid", pid.as_str())),
    ];
    let label = labels.into_iter().flatten().map(|(key, text)| Label {
        key: code.string(key),
        text: code.string(text),
    });
    let label = label.collect();
    Sample {
        location_id: locations,
        value: TYPES.map(|(w, _, _)| signed(sums.weigh(w))).to_vec(),
        label,
    }
}

/// As large as the format can say.
fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
