//! OpenMetrics' text format, <https://prometheus.io/docs/specs/om/open_metrics_spec/>.

use std::fmt;

use anyhow::Context as _;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use crate::metric_families::{
    BUCKET_BOUNDS_NS, HostFigures, MetricFamily, SeriesValue, TimeDistribution,
};

/// The content type of the answer to a scrape.
pub const OPENMETRICS_CONTENT_TYPE: &str =
    "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// All figures as text.
///
/// # Errors
///
/// The text can't be written, which is not known to happen.
pub fn openmetrics_text(figures: &HostFigures) -> anyhow::Result<String> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(FiguresCollector(figures.clone())));
    let mut text = String::new();
    encode(&mut text, &registry).context("write the figures as OpenMetrics")?;
    Ok(text)
}

#[derive(Debug)]
struct FiguresCollector(HostFigures);

impl Collector for FiguresCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for family in &self.0.families {
            encode_family(family, &mut encoder)?;
        }
        Ok(())
    }
}

/// All series of a family are of one kind, so the first one's decides.
fn encode_family(
    family: &MetricFamily,
    encoder: &mut DescriptorEncoder<'_>,
) -> Result<(), fmt::Error> {
    let Some(first) = family.series.first() else {
        return Ok(());
    };
    let seconds = Unit::Seconds;
    let bytes = Unit::Bytes;
    // In this format the unit is a suffix of the name, and the encoder writes it.
    let (kind, unit, name) = match (&first.value, family.name) {
        (SeriesValue::Count(_), name) => (MetricType::Counter, None, name),
        (SeriesValue::Nanos(_), name) => (
            MetricType::Counter,
            Some(&seconds),
            name.trim_end_matches("_seconds"),
        ),
        (SeriesValue::Gauge(_), name) if name.ends_with("_bytes") => (
            MetricType::Gauge,
            Some(&bytes),
            name.trim_end_matches("_bytes"),
        ),
        (SeriesValue::Gauge(_), name) => (MetricType::Gauge, None, name),
        (SeriesValue::Distribution(_), name) => (
            MetricType::Histogram,
            Some(&seconds),
            name.trim_end_matches("_seconds"),
        ),
    };
    // The encoder writes the full stop itself.
    let help = family.help.trim_end_matches('.');
    let mut all = encoder.encode_descriptor(name, help, unit, kind)?;
    for series in &family.series {
        if series.labels.is_empty() {
            encode_value(&series.value, &mut all)?;
        } else {
            encode_value(&series.value, &mut all.encode_family(&series.labels)?)?;
        }
    }
    Ok(())
}

fn encode_value(value: &SeriesValue, encoder: &mut MetricEncoder<'_>) -> Result<(), fmt::Error> {
    const NONE: Option<&prometheus_client::metrics::exemplar::Exemplar<[(&str, &str); 0], f64>> =
        None;
    match value {
        SeriesValue::Count(n) => encoder.encode_counter(n, NONE),
        SeriesValue::Nanos(ns) => encoder.encode_counter(&as_seconds(*ns), NONE),
        SeriesValue::Gauge(n) => encoder.encode_gauge(n),
        SeriesValue::Distribution(times) => encoder.encode_histogram::<[(&str, &str); 0]>(
            as_seconds(times.sum_ns),
            times.count,
            &bucket_counts(times),
            None,
        ),
    }
}

/// The number of times in each bucket alone, with its bound in seconds. The encoder adds them up, as the format has each bound
/// count all times within it.
fn bucket_counts(times: &TimeDistribution) -> Vec<(f64, u64)> {
    let bounds = BUCKET_BOUNDS_NS.iter().map(|ns| as_seconds(*ns));
    // The last bucket becomes +Inf, without which a scraper rejects a histogram.
    bounds.chain([f64::INFINITY]).zip(times.buckets).collect()
}

fn as_seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check each kind of figure as text: names with their suffixes, units, labels that are escaped, seconds, and buckets that
    /// are cumulative and end with +Inf, as all of the format's readers ask for.
    #[test]
    fn each_kind_as_text() {
        let mut count = MetricFamily::new("quell_a", "Counts.");
        count.push(&[("cause", "x\"y\\z")], SeriesValue::Count(3));
        let mut times = TimeDistribution {
            count: 7,
            sum_ns: 1_500_000_000,
            ..TimeDistribution::default()
        };
        (
            times.buckets[0],
            times.buckets[1],
            times.buckets[BUCKET_BOUNDS_NS.len()],
        ) = (1, 2, 4);
        let figures = HostFigures {
            families: vec![
                count,
                MetricFamily::with_value("quell_b_seconds", "Sums.", SeriesValue::Nanos(2_500_000)),
                MetricFamily::with_value("quell_c_bytes", "Now.", SeriesValue::Gauge(5)),
                MetricFamily::with_value(
                    "quell_d_seconds",
                    "Times.",
                    SeriesValue::Distribution(Box::new(times)),
                ),
            ],
            ..HostFigures::default()
        };
        let text = openmetrics_text(&figures).unwrap();
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
        assert_eq!(told, figures.series_count());
    }
}
