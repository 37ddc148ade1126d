//! InfluxDB's line protocol: a measurement a family, a point a series.
//!
//! Fields are integers: `count`, `ns` or `now`, as they are; of times also how many lie within each bound since the agent
//! started, and the percentiles of the last interval, which that language can't make of bounds.

use quell_export::influx::InfluxPoint;

use crate::figures::{BOUNDS, Figures, Value};

/// The lines, with the host's name on each.
#[must_use]
pub fn lines(figures: &Figures, host: &str) -> String {
    let bounds: Vec<String> = BOUNDS.iter().map(|ns| format!("le_{ns}")).collect();
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
                Value::Count(n) => vec![("count", *n)],
                Value::Nanos(n) => vec![("ns", *n)],
                Value::Now(n) => vec![("now", *n)],
                Value::Times(times) => {
                    let mut fields = vec![("count", times.count), ("sum_ns", times.sum_ns)];
                    fields.extend(
                        ["p50_ns", "p99_ns", "p999_ns", "max_ns"]
                            .into_iter()
                            .zip(times.last),
                    );
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
