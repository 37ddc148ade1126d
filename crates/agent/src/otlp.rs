//! OpenTelemetry's protocol, the part that metrics need of
//! <https://github.com/open-telemetry/opentelemetry-proto/blob/v1.3.2/opentelemetry/proto/metrics/v1/metrics.proto>.
//! The numbers are that file's; sums are cumulative, since the agent started or what [`Series::since_ns`] says.

use prost::{Message, Oneof};

use crate::figures::{BOUNDS, Family, Figures, Series, Value};

/// `POST` it to `/v1/metrics` with this.
pub const CONTENT_TYPE: &str = "application/x-protobuf";

const CUMULATIVE: i32 = 2;

#[derive(Clone, PartialEq, Message)]
struct Request {
    #[prost(message, repeated, tag = "1")]
    resource_metrics: Vec<ResourceMetrics>,
}

#[derive(Clone, PartialEq, Message)]
struct ResourceMetrics {
    #[prost(message, optional, tag = "1")]
    resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    scope_metrics: Vec<ScopeMetrics>,
}

#[derive(Clone, PartialEq, Message)]
struct Resource {
    #[prost(message, repeated, tag = "1")]
    attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct KeyValue {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(message, optional, tag = "2")]
    value: Option<AnyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct AnyValue {
    #[prost(string, optional, tag = "1")]
    string_value: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct ScopeMetrics {
    #[prost(message, optional, tag = "1")]
    scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    metrics: Vec<Metric>,
}

#[derive(Clone, PartialEq, Message)]
struct Scope {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    version: String,
}

#[derive(Clone, PartialEq, Message)]
struct Metric {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    description: String,
    #[prost(string, tag = "3")]
    unit: String,
    #[prost(oneof = "Data", tags = "5, 7, 9")]
    data: Option<Data>,
}

#[derive(Clone, PartialEq, Oneof)]
enum Data {
    #[prost(message, tag = "5")]
    Gauge(Gauge),
    #[prost(message, tag = "7")]
    Sum(Sum),
    #[prost(message, tag = "9")]
    Histogram(Histogram),
}

#[derive(Clone, PartialEq, Message)]
struct Gauge {
    #[prost(message, repeated, tag = "1")]
    data_points: Vec<Number>,
}

#[derive(Clone, PartialEq, Message)]
struct Sum {
    #[prost(message, repeated, tag = "1")]
    data_points: Vec<Number>,
    #[prost(int32, tag = "2")]
    aggregation_temporality: i32,
    #[prost(bool, tag = "3")]
    is_monotonic: bool,
}

#[derive(Clone, PartialEq, Message)]
struct Histogram {
    #[prost(message, repeated, tag = "1")]
    data_points: Vec<HistogramPoint>,
    #[prost(int32, tag = "2")]
    aggregation_temporality: i32,
}

#[derive(Clone, PartialEq, Message)]
struct Number {
    #[prost(message, repeated, tag = "7")]
    attributes: Vec<KeyValue>,
    #[prost(fixed64, tag = "2")]
    start_time_unix_nano: u64,
    #[prost(fixed64, tag = "3")]
    time_unix_nano: u64,
    #[prost(oneof = "Is", tags = "4, 6")]
    value: Option<Is>,
}

#[derive(Clone, Copy, PartialEq, Oneof)]
enum Is {
    #[prost(double, tag = "4")]
    Double(f64),
    #[prost(sfixed64, tag = "6")]
    Int(i64),
}

#[derive(Clone, PartialEq, Message)]
struct HistogramPoint {
    #[prost(message, repeated, tag = "9")]
    attributes: Vec<KeyValue>,
    #[prost(fixed64, tag = "2")]
    start_time_unix_nano: u64,
    #[prost(fixed64, tag = "3")]
    time_unix_nano: u64,
    #[prost(fixed64, tag = "4")]
    count: u64,
    #[prost(double, optional, tag = "5")]
    sum: Option<f64>,
    #[prost(fixed64, repeated, tag = "6")]
    bucket_counts: Vec<u64>,
    #[prost(double, repeated, tag = "7")]
    explicit_bounds: Vec<f64>,
}

fn attribute((key, value): (&str, &str)) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue {
            string_value: Some(value.to_owned()),
        }),
    }
}

/// The request that tells all figures of a host.
#[must_use]
pub fn request(figures: &Figures, host: &str, version: &str) -> Vec<u8> {
    let resource = [
        ("service.name", "quell"),
        ("service.version", version),
        ("host.name", host),
    ];
    let metrics = figures
        .families
        .iter()
        .filter_map(|family| metric(figures, family));
    let request = Request {
        resource_metrics: vec![ResourceMetrics {
            resource: Some(Resource {
                attributes: resource.map(attribute).into(),
            }),
            scope_metrics: vec![ScopeMetrics {
                scope: Some(Scope {
                    name: "quell".to_owned(),
                    version: version.to_owned(),
                }),
                metrics: metrics.collect(),
            }],
        }],
    };
    request.encode_to_vec()
}

fn metric(figures: &Figures, family: &Family) -> Option<Metric> {
    let first = family.series.first()?;
    let numbers = || {
        let points = family.series.iter().map(|series| number(figures, series));
        points.collect::<Vec<_>>()
    };
    let (unit, data) = match &first.value {
        Value::Now(_) => (
            if family.name.ends_with("_bytes") {
                "By"
            } else {
                "1"
            },
            Data::Gauge(Gauge {
                data_points: numbers(),
            }),
        ),
        Value::Count(_) | Value::Nanos(_) => (
            if matches!(first.value, Value::Nanos(_)) {
                "s"
            } else {
                "1"
            },
            Data::Sum(Sum {
                data_points: numbers(),
                aggregation_temporality: CUMULATIVE,
                is_monotonic: true,
            }),
        ),
        Value::Times(_) => (
            "s",
            Data::Histogram(Histogram {
                data_points: family
                    .series
                    .iter()
                    .filter_map(|s| times(figures, s))
                    .collect(),
                aggregation_temporality: CUMULATIVE,
            }),
        ),
    };
    Some(Metric {
        name: family.name.to_owned(),
        description: family.help.to_owned(),
        unit: unit.to_owned(),
        data: Some(data),
    })
}

fn attributes(series: &Series) -> Vec<KeyValue> {
    let labels = series.labels.iter();
    labels.map(|(name, text)| attribute((name, text))).collect()
}

/// A start is never after the time, also where the clock was set back meanwhile.
fn start(figures: &Figures, series: &Series) -> u64 {
    let since = match series.since_ns {
        0 => figures.started_ns,
        ns => ns,
    };
    since.min(figures.t_ns)
}

fn number(figures: &Figures, series: &Series) -> Number {
    let int = |n: u64| Is::Int(i64::try_from(n).unwrap_or(i64::MAX));
    Number {
        attributes: attributes(series),
        start_time_unix_nano: start(figures, series),
        time_unix_nano: figures.t_ns,
        value: match &series.value {
            Value::Count(n) | Value::Now(n) => Some(int(*n)),
            Value::Nanos(ns) => Some(Is::Double(*ns as f64 / 1e9)),
            Value::Times(_) => None,
        },
    }
}

fn times(figures: &Figures, series: &Series) -> Option<HistogramPoint> {
    let Value::Times(times) = &series.value else {
        return None;
    };
    Some(HistogramPoint {
        attributes: attributes(series),
        start_time_unix_nano: start(figures, series),
        time_unix_nano: figures.t_ns,
        count: times.count,
        sum: Some(times.sum_ns as f64 / 1e9),
        bucket_counts: times.buckets.to_vec(),
        explicit_bounds: BOUNDS.iter().map(|ns| *ns as f64 / 1e9).collect(),
    })
}
