//! OpenMetrics' text form, <https://prometheus.io/docs/specs/om/open_metrics_spec/>.

use std::fmt;

use anyhow::Context as _;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use crate::figures::{BOUNDS, Family, Figures, Times, Value};

/// What a scrape is answered with.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The text of all figures.
///
/// # Errors
///
/// If it can't be written, which is not known to happen.
pub fn text(figures: &Figures) -> anyhow::Result<String> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Told(figures.clone())));
    let mut text = String::new();
    encode(&mut text, &registry).context("write the figures as OpenMetrics")?;
    Ok(text)
}

#[derive(Debug)]
struct Told(Figures);

impl Collector for Told {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for family in &self.0.families {
            family_told(family, &mut encoder)?;
        }
        Ok(())
    }
}

/// All series of a family are of one kind.
fn family_told(family: &Family, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
    let Some(first) = family.series.first() else {
        return Ok(());
    };
    let seconds = Unit::Seconds;
    let bytes = Unit::Bytes;
    // the unit is a suffix of the name in this form, which writes it itself
    let (kind, unit, name) = match (&first.value, family.name) {
        (Value::Count(_), name) => (MetricType::Counter, None, name),
        (Value::Nanos(_), name) => (
            MetricType::Counter,
            Some(&seconds),
            name.trim_end_matches("_seconds"),
        ),
        (Value::Now(_), name) if name.ends_with("_bytes") => (
            MetricType::Gauge,
            Some(&bytes),
            name.trim_end_matches("_bytes"),
        ),
        (Value::Now(_), name) => (MetricType::Gauge, None, name),
        (Value::Times(_), name) => (
            MetricType::Histogram,
            Some(&seconds),
            name.trim_end_matches("_seconds"),
        ),
    };
    // the encoder writes the full stop itself
    let help = family.help.trim_end_matches('.');
    let mut all = encoder.encode_descriptor(name, help, unit, kind)?;
    for series in &family.series {
        if series.labels.is_empty() {
            value_told(&series.value, &mut all)?;
        } else {
            value_told(&series.value, &mut all.encode_family(&series.labels)?)?;
        }
    }
    Ok(())
}

fn value_told(value: &Value, encoder: &mut MetricEncoder<'_>) -> Result<(), fmt::Error> {
    const NONE: Option<&prometheus_client::metrics::exemplar::Exemplar<[(&str, &str); 0], f64>> =
        None;
    match value {
        Value::Count(n) => encoder.encode_counter(n, NONE),
        Value::Nanos(ns) => encoder.encode_counter(&seconds(*ns), NONE),
        Value::Now(n) => encoder.encode_gauge(n),
        Value::Times(times) => encoder.encode_histogram::<[(&str, &str); 0]>(
            seconds(times.sum_ns),
            times.count,
            &buckets(times),
            None,
        ),
    }
}

fn buckets(times: &Times) -> Vec<(f64, u64)> {
    let bounds = BOUNDS.iter().map(|ns| seconds(*ns));
    // told as +Inf, without which a scraper makes nothing of a histogram
    bounds.chain([f64::INFINITY]).zip(times.buckets).collect()
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check each kind of figure as text: names with their suffixes, units, labels that are escaped, seconds, and buckets that
    /// are cumulative and end with +Inf, as all of the format's readers ask for.
    #[test]
    fn each_kind_as_text() {
        let mut count = Family::new("quell_a", "Counts.");
        count.push(&[("cause", "x\"y\\z")], Value::Count(3));
        let mut times = Times {
            count: 7,
            sum_ns: 1_500_000_000,
            ..Times::default()
        };
        (
            times.buckets[0],
            times.buckets[1],
            times.buckets[BOUNDS.len()],
        ) = (1, 2, 4);
        let figures = Figures {
            families: vec![
                count,
                Family::one("quell_b_seconds", "Sums.", Value::Nanos(2_500_000)),
                Family::one("quell_c_bytes", "Now.", Value::Now(5)),
                Family::one("quell_d_seconds", "Times.", Value::Times(Box::new(times))),
            ],
            ..Figures::default()
        };
        let text = text(&figures).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let expected = [
            "# HELP quell_a Counts",
            "# TYPE quell_a counter",
            r#"quell_a_total{cause="x\"y\\z"} 3"#,
            "# HELP quell_b_seconds Sums",
            "# TYPE quell_b_seconds counter",
            "# UNIT quell_b_seconds seconds",
            "quell_b_seconds_total 0.0025",
            "# TYPE quell_c_bytes gauge",
            "quell_c_bytes 5",
            "# TYPE quell_d_seconds histogram",
            "quell_d_seconds_sum 1.5",
            "quell_d_seconds_count 7",
            r#"quell_d_seconds_bucket{le="5e-7"} 1"#,
            r#"quell_d_seconds_bucket{le="0.000001"} 3"#,
            r#"quell_d_seconds_bucket{le="1.0"} 3"#,
            r#"quell_d_seconds_bucket{le="+Inf"} 7"#,
        ];
        for line in expected {
            assert!(lines.contains(&line), "{line} is not in:\n{text}");
        }
        assert_eq!(lines.last(), Some(&"# EOF"));
        // as one that asks for it would be counted
        let told = lines.iter().filter(|line| !line.starts_with('#')).count();
        assert_eq!(told, figures.series());
    }
}
