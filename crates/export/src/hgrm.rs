//! `.hgrm`: HdrHistogram's percentile distribution as text, as its Java library prints it and its
//! plotter reads it.

use std::io::Write;

use anyhow::Context as _;
use hdrhistogram::Histogram;

use crate::{Measure, Rows, measure};

/// Lines for each halving of the distance to 100 %, as all HdrHistogram tools print them.
const TICKS_PER_HALF: u32 = 5;
/// Values are printed in µs.
const NS_PER_UNIT: f64 = 1e3;

/// Writes the distribution of one time over the whole trace, in µs.
///
/// # Errors
///
/// If the trace can't be read or `out` can't be written.
pub fn write(rows: &Rows<'_>, measure: Measure, out: &mut dyn Write) -> anyhow::Result<()> {
    let mut histogram = measure::new_histogram()?;
    rows.each_row(|row| {
        if let Some(ns) = measure.value_of(row) {
            histogram.saturating_record(ns);
        }
        Ok(())
    })?;
    percentile_text(&histogram, measure.name(), out).context("can't write the distribution")
}

/// The text of a histogram of ns, in µs; `what` names the measured time.
pub(crate) fn percentile_text(
    histogram: &Histogram<u64>,
    what: &str,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    let units = |ns: f64| ns / NS_PER_UNIT;
    writeln!(
        out,
        "{:>12} {:>14} {:>10} {:>14}\n",
        "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
    )?;
    let mut total = 0;
    for step in histogram.iter_quantiles(TICKS_PER_HALF) {
        total += step.count_since_last_iteration();
        let value = units(step.value_iterated_to() as f64);
        let quantile = step.quantile_iterated_to();
        write!(out, "{value:>12.3} {quantile:>2.12} {total:>10}")?;
        if quantile < 1.0 {
            write!(out, " {:>14.2}", 1.0 / (1.0 - quantile))?;
        }
        writeln!(out)?;
    }
    let (mean, stdev) = if histogram.is_empty() {
        (0.0, 0.0)
    } else {
        (units(histogram.mean()), units(histogram.stdev()))
    };
    writeln!(
        out,
        "#[Mean    = {mean:>12.3}, StdDeviation   = {stdev:>12.3}]"
    )?;
    writeln!(
        out,
        "#[Max     = {:>12.3}, Total count    = {:>12}]",
        units(histogram.max() as f64),
        histogram.len()
    )?;
    writeln!(
        out,
        "#[Buckets = {:>12}, SubBuckets     = {:>12}]",
        histogram.buckets(),
        sub_buckets(histogram)
    )?;
    // A line that readers take for a comment: the form itself has no place for a unit.
    writeln!(out, "#[Unit    = microseconds of {what}]")
}

/// As HdrHistogram counts them: the power of two that holds 2 · 10^digits.
fn sub_buckets(histogram: &Histogram<u64>) -> u64 {
    (2 * 10u64.pow(histogram.sigfig().into())).next_power_of_two()
}
