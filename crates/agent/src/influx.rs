//! InfluxDB's line protocol: each family is a measurement, each series a point.
//!
//! Fields are integers: `count`, `ns` or `now` as they are. A distribution has the count within each bound since the agent
//! started, and also the quantiles of the last interval, which InfluxDB can't compute from bounds.

use quell_export::influx::InfluxPoint;

use crate::metric_families::{BUCKET_BOUNDS_NS, HostFigures, SeriesValue};

/// The figures as lines, with the host's name on each.
#[must_use]
pub fn line_protocol(figures: &HostFigures, host: &str) -> String {
    let bounds: Vec<String> = BUCKET_BOUNDS_NS
        .iter()
        .map(|ns| format!("le_{ns}"))
        .collect();
    let mut out = String::new();
    for family in &figures.families {
        for series in &family.series {
            let mut tags = vec![("host", host)];
            tags.extend(
                series
                    .labels
                    .iter()
                    .map(|(name, text)| (*name, text.as_str())),
            );
            let fields = match &series.value {
                SeriesValue::Count(n) => vec![("count", *n)],
                SeriesValue::Nanos(n) => vec![("ns", *n)],
                SeriesValue::Gauge(n) => vec![("now", *n)],
                SeriesValue::Distribution(times) => {
                    let mut fields = vec![("count", times.count), ("sum_ns", times.sum_ns)];
                    fields.extend(
                        ["p50_ns", "p99_ns", "p999_ns", "max_ns"]
                            .into_iter()
                            .zip(times.last_quantiles_ns),
                    );
                    // Each bound has all times within it, as in Prometheus; times beyond the last bound are in `count` alone.
                    let mut within = 0;
                    for (name, n) in bounds.iter().zip(times.buckets) {
                        within += n;
                        fields.push((name, within));
                    }
                    fields
                }
            };
            let point = InfluxPoint {
                measurement: family.name,
                tags,
                fields: fields
                    .into_iter()
                    .map(|(name, n)| (name, i64::try_from(n).unwrap_or(i64::MAX)))
                    .collect(),
                t_ns: figures.t_ns,
            };
            out.push_str(&point.protocol_line());
        }
    }
    out
}
