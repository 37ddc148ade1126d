//! Distributions of the victim's turns: an interval log of all arms, and a percentile distribution of each.

use std::io::Write;
use std::time::{Duration, UNIX_EPOCH};

use anyhow::Context as _;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};

use super::Turns;
use crate::{hgrm, measure};

/// The log's column of maxima is in µs, and the values of the histograms are in ns.
const NS_PER_MAX: f64 = 1e3;

fn turns_histogram(turns: &Turns<'_>) -> anyhow::Result<Histogram<u64>> {
    let mut histogram = measure::new_histogram()?;
    for (ns, n) in turns.turns {
        histogram.saturating_record_n(*ns, *n);
    }
    Ok(histogram)
}

/// A log with one interval an arm, tagged `EXPERIMENT.ARM`. Values are ns.
///
/// Results don't say when they were measured, so intervals begin at `wall_ns` (since 1970) one after the other, each
/// as long as the victim ran; the arms of an experiment in truth took turns.
///
/// # Errors
///
/// If `out` can't be written.
pub fn write_log(all: &[Turns<'_>], wall_ns: u64, out: &mut dyn Write) -> anyhow::Result<()> {
    let mut serializer = V2DeflateSerializer::new();
    let mut out = out;
    let start = UNIX_EPOCH + Duration::from_nanos(wall_ns);
    let mut log = IntervalLogWriterBuilder::new()
        .add_comment("[Histogram log format version 1.3]")
        .add_comment(
            "[Values are nanoseconds, rounded down to two digits, Interval_Max is microseconds]",
        )
        .with_start_time(start)
        .with_base_time(start)
        .with_max_value_divisor(NS_PER_MAX)
        .begin_log_with(&mut out, &mut serializer)
        .context("can't write the log")?;
    let mut since = Duration::ZERO;
    for turns in all {
        let long = Duration::from_nanos(turns.ran_ns);
        let name = log_tag(&format!("{}.{}", turns.experiment, turns.arm));
        log.write_histogram(&turns_histogram(turns)?, since, long, Tag::new(&name))
            .context("can't write the log")?;
        since = since.saturating_add(long);
    }
    Ok(())
}

/// A tag without the characters that separate a log's columns.
fn log_tag(name: &str) -> String {
    let clean = |c: char| {
        if c == ',' || c.is_whitespace() || c.is_control() {
            '_'
        } else {
            c
        }
    };
    name.chars().map(clean).collect()
}

/// One arm's distribution, in µs.
///
/// # Errors
///
/// If `out` can't be written.
pub fn write_distribution(turns: &Turns<'_>, out: &mut dyn Write) -> anyhow::Result<()> {
    let what = log_tag(&format!("{}.{}", turns.experiment, turns.arm));
    hgrm::percentile_text(&turns_histogram(turns)?, &what, out)
        .context("can't write the distribution")
}
