//! pprof: a gzipped `profile.proto` with a sample for each stack, cause and thread name.

mod code;
pub(crate) mod proto;

use std::io::Write;

use anyhow::Context as _;
use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message as _;

use crate::samples::{self, SampleOrigin, SampleSums, SampledWork};
use crate::{Rows, SampleWeight, Stacks};
use code::CodeTables;
use proto::{Label, PprofProfile, ProfileSample, ValueType};

/// The sample types, in the order of the values of a sample.
const SAMPLE_TYPES: [(SampleWeight, &str, &str); 5] = [
    (SampleWeight::Count, "shootdowns", "count"),
    (SampleWeight::Wait, "wait", "nanoseconds"),
    (SampleWeight::Stall, "stall", "nanoseconds"),
    (SampleWeight::Cpu, "cpu", "nanoseconds"),
    (SampleWeight::Blocked, "blocked", "nanoseconds"),
];

/// Writes the profile. It has all weights; readers show `weight` by default.
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
    let processes = rows.trace().read_processes()?.rows;
    let mut code = CodeTables::new(&processes);
    let mut sums = samples::origin_sums(rows)?;
    sums.extend(samples::account_sums(rows)?);
    let sample = sums
        .iter()
        .map(|(origin, sums)| make_sample(origin, sums, stacks, &mut code))
        .collect();
    let mut profile = PprofProfile {
        sample,
        default_sample_type: code.string_id(type_name(weight)),
        sample_type: SAMPLE_TYPES
            .iter()
            .map(|(_, kind, unit)| ValueType {
                kind: code.string_id(kind),
                unit: code.string_id(unit),
            })
            .collect(),
        comment: vec![code.string_id(&format!("quell {}", env!("CARGO_PKG_VERSION")))],
        ..PprofProfile::default()
    };
    let meta = rows.meta();
    profile.time_nanos = to_signed(meta.start_wall_ns);
    if let Some(ended) = meta.ended {
        let duration = ended.monotonic_ns.saturating_sub(meta.start_monotonic_ns);
        profile.duration_nanos = to_signed(duration);
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

fn type_name(weight: SampleWeight) -> &'static str {
    let found = SAMPLE_TYPES.iter().find(|(w, _, _)| *w == weight);
    found.map_or("", |(_, name, _)| name)
}

fn make_sample(
    origin: &SampleOrigin,
    sums: &SampleSums,
    stacks: &Stacks,
    code: &mut CodeTables<'_>,
) -> ProfileSample {
    let of = |id| stacks.get(&id).map_or(&[][..], |s| &s.frames);
    let user = of(origin.user_stack).iter();
    let kernel = of(origin.kernel_stack).iter();
    // The program's first, so that its file comes before the kernel: readers name a profile by it.
    let user: Vec<u64> = user
        .map(|f| code.location_id(Some(origin.pid), f))
        .collect();
    let mut locations: Vec<u64> = kernel.map(|f| code.location_id(None, f)).collect();
    locations.extend(user);
    if locations.is_empty() {
        locations.push(code.no_stack_location());
    }
    let what = match origin.what {
        SampledWork::Shootdown(_) => "cause",
        SampledWork::Memory(..) => "mechanism",
    };
    let (comm, pid) = (origin.comm.as_text(), origin.pid.to_string());
    let labels = [
        Some((what, origin.what.name())),
        origin.what.part_name().map(|part| ("part", part)),
        Some(("comm", &*comm)),
        Some(("pid", pid.as_str())),
    ];
    let label = labels.into_iter().flatten().map(|(key, text)| Label {
        key: code.string_id(key),
        text: code.string_id(text),
    });
    let label = label.collect();
    ProfileSample {
        location_id: locations,
        value: SAMPLE_TYPES
            .map(|(w, _, _)| to_signed(sums.weight_of(w)))
            .to_vec(),
        label,
    }
}

/// As large as the format can say.
fn to_signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
