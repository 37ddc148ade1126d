//! `.hlog`: HdrHistogram's interval log (V2, compressed), one interval a second.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io::Write;
use std::time::{Duration, UNIX_EPOCH};

use anyhow::Context as _;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriter, IntervalLogWriterBuilder, Tag};

use crate::{Measure, Rows, measure};

/// Seconds that are kept open: rows are in the order of recording, and a CPU that shoots seldom is
/// recorded late. A row of a second that is written already counts in the first one that is not.
const MAX_OPEN_SECONDS: usize = 4;

const SECOND_NS: u64 = 1_000_000_000;
/// The log's column of maxima is in µs, and the values of the histograms are in ns.
const NS_PER_MAX: f64 = 1e3;

type Second = Vec<Histogram<u64>>;

/// Writes the distribution of each of `measures` in each second, tagged by its name. Values are ns.
///
/// # Errors
///
/// If the trace can't be read or `out` can't be written.
pub fn write(rows: &Rows<'_>, measures: &[Measure], out: &mut dyn Write) -> anyhow::Result<()> {
    let meta = rows.meta();
    let mut serializer = V2DeflateSerializer::new();
    let mut out = out;
    let log = IntervalLogWriterBuilder::new()
        .add_comment("[Histogram log format version 1.3]")
        .add_comment("[Values are nanoseconds, Interval_Max is microseconds]")
        .with_start_time(UNIX_EPOCH + Duration::from_nanos(meta.start_wall_ns))
        .with_base_time(UNIX_EPOCH + Duration::from_nanos(meta.start_wall_ns))
        .with_max_value_divisor(NS_PER_MAX)
        .begin_log_with(&mut out, &mut serializer)
        .context("can't write the log")?;
    let mut log = IntervalLog { log, measures };
    let mut open: BTreeMap<u64, Second> = BTreeMap::new();
    // The first second that is not written yet.
    let mut next = 0;
    rows.each_row(|row| {
        let since = row.t_ns.saturating_sub(meta.start_monotonic_ns);
        let second = (since / SECOND_NS).max(next);
        let histograms = match open.entry(second) {
            Entry::Occupied(seen) => seen.into_mut(),
            Entry::Vacant(new) => {
                let empty = measures.iter().map(|_| measure::new_histogram());
                new.insert(empty.collect::<anyhow::Result<Second>>()?)
            }
        };
        for (measure, histogram) in measures.iter().zip(histograms) {
            if let Some(ns) = measure.value_of(row) {
                histogram.saturating_record(ns);
            }
        }
        if open.len() > MAX_OPEN_SECONDS
            && let Some((second, histograms)) = open.pop_first()
        {
            next = second + 1;
            log.write_second(second, &histograms)?;
        }
        Ok(())
    })?;
    for (second, histograms) in &open {
        log.write_second(*second, histograms)?;
    }
    Ok(())
}

struct IntervalLog<'a, 'b, 'o, 'm> {
    log: IntervalLogWriter<'a, 'b, &'o mut dyn Write, V2DeflateSerializer>,
    measures: &'m [Measure],
}

impl IntervalLog<'_, '_, '_, '_> {
    /// Writes one interval for each measure that has values in this second, which is counted from the beginning of the recording:
    /// the log's base time.
    fn write_second(&mut self, second: u64, histograms: &[Histogram<u64>]) -> anyhow::Result<()> {
        for (measure, histogram) in self.measures.iter().zip(histograms) {
            if histogram.is_empty() {
                continue;
            }
            let start = Duration::from_secs(second);
            self.log
                .write_histogram(
                    histogram,
                    start,
                    Duration::from_secs(1),
                    Tag::new(measure.name()),
                )
                .context("can't write the log")?;
        }
        Ok(())
    }
}
