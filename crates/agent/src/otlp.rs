//! OpenTelemetry's protocol, as far as metrics need it of
//! <https://github.com/open-telemetry/opentelemetry-proto/blob/v1.3.2/opentelemetry/proto/metrics/v1/metrics.proto>.
//! The tags are that file's. Sums are cumulative from the agent's start, or from [`MetricSeries::since_ns`].

use prost::{Message, Oneof};

use crate::metric_families::{
    BUCKET_BOUNDS_NS, HostFigures, MetricFamily, MetricSeries, SeriesValue,
};

/// The content type of a `POST` to `/v1/metrics`.
pub const OTLP_CONTENT_TYPE: &str = "application/x-protobuf";

const CUMULATIVE_TEMPORALITY: i32 = 2;

#[derive(Clone, PartialEq, Message)]
struct ExportRequest {
    #[prost(message, repeated, tag = "1")]
    resource_metrics: Vec<ResourceMetrics>,
}

#[derive(Clone, PartialEq, Message)]
struct ResourceMetrics {
    #[prost(message, optional, tag = "1")]
    resource: Option<OtlpResource>,
    #[prost(message, repeated, tag = "2")]
    scope_metrics: Vec<ScopeMetrics>,
}

#[derive(Clone, PartialEq, Message)]
struct OtlpResource {
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
    scope: Option<InstrumentationScope>,
    #[prost(message, repeated, tag = "2")]
    metrics: Vec<OtlpMetric>,
}

#[derive(Clone, PartialEq, Message)]
struct InstrumentationScope {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    version: String,
}

#[derive(Clone, PartialEq, Message)]
struct OtlpMetric {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    description: String,
    #[prost(string, tag = "3")]
    unit: String,
    #[prost(oneof = "MetricData", tags = "5, 7, 9")]
    data: Option<MetricData>,
}

#[derive(Clone, PartialEq, Oneof)]
enum MetricData {
    #[prost(message, tag = "5")]
    Gauge(OtlpGauge),
    #[prost(message, tag = "7")]
    Sum(OtlpSum),
    #[prost(message, tag = "9")]
    Histogram(OtlpHistogram),
}

#[derive(Clone, PartialEq, Message)]
struct OtlpGauge {
    #[prost(message, repeated, tag = "1")]
    data_points: Vec<NumberDataPoint>,
}

#[derive(Clone, PartialEq, Message)]
struct OtlpSum {
    #[prost(message, repeated, tag = "1")]
    data_points: Vec<NumberDataPoint>,
    #[prost(int32, tag = "2")]
    aggregation_temporality: i32,
    #[prost(bool, tag = "3")]
    is_monotonic: bool,
}

#[derive(Clone, PartialEq, Message)]
struct OtlpHistogram {
    #[prost(message, repeated, tag = "1")]
    data_points: Vec<HistogramDataPoint>,
    #[prost(int32, tag = "2")]
    aggregation_temporality: i32,
}

#[derive(Clone, PartialEq, Message)]
struct NumberDataPoint {
    #[prost(message, repeated, tag = "7")]
    attributes: Vec<KeyValue>,
    #[prost(fixed64, tag = "2")]
    start_time_unix_nano: u64,
    #[prost(fixed64, tag = "3")]
    time_unix_nano: u64,
    #[prost(oneof = "NumberValue", tags = "4, 6")]
    value: Option<NumberValue>,
}

#[derive(Clone, Copy, PartialEq, Oneof)]
enum NumberValue {
    #[prost(double, tag = "4")]
    Double(f64),
    #[prost(sfixed64, tag = "6")]
    Int(i64),
}

#[derive(Clone, PartialEq, Message)]
struct HistogramDataPoint {
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

fn string_attribute((key, value): (&str, &str)) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue {
            string_value: Some(value.to_owned()),
        }),
    }
}

/// The request with all figures of a host.
#[must_use]
pub fn export_request(figures: &HostFigures, host: &str, version: &str) -> Vec<u8> {
    let resource = [
        ("service.name", "quell"),
        ("service.version", version),
        ("host.name", host),
    ];
    let metrics = figures
        .families
        .iter()
        .filter_map(|family| otlp_metric(figures, family));
    let request = ExportRequest {
        resource_metrics: vec![ResourceMetrics {
            resource: Some(OtlpResource {
                attributes: resource.map(string_attribute).into(),
            }),
            scope_metrics: vec![ScopeMetrics {
                scope: Some(InstrumentationScope {
                    name: "quell".to_owned(),
                    version: version.to_owned(),
                }),
                metrics: metrics.collect(),
            }],
        }],
    };
    request.encode_to_vec()
}

/// A family as a metric; `None` where it has no series. All series of a family are of one kind, so the first one's decides. Units
/// are those of UCUM, as OpenTelemetry asks: `By` for bytes, `s` for seconds, `1` for a number.
fn otlp_metric(figures: &HostFigures, family: &MetricFamily) -> Option<OtlpMetric> {
    let first = family.series.first()?;
    let numbers = || {
        let points = family
            .series
            .iter()
            .map(|series| number_point(figures, series));
        points.collect::<Vec<_>>()
    };
    let (unit, data) = match &first.value {
        SeriesValue::Gauge(_) => (
            if family.name.ends_with("_bytes") {
                "By"
            } else {
                "1"
            },
            MetricData::Gauge(OtlpGauge {
                data_points: numbers(),
            }),
        ),
        SeriesValue::Count(_) | SeriesValue::Nanos(_) => (
            if matches!(first.value, SeriesValue::Nanos(_)) {
                "s"
            } else {
                "1"
            },
            MetricData::Sum(OtlpSum {
                data_points: numbers(),
                aggregation_temporality: CUMULATIVE_TEMPORALITY,
                is_monotonic: true,
            }),
        ),
        SeriesValue::Distribution(_) => (
            "s",
            MetricData::Histogram(OtlpHistogram {
                data_points: family
                    .series
                    .iter()
                    .filter_map(|s| histogram_point(figures, s))
                    .collect(),
                aggregation_temporality: CUMULATIVE_TEMPORALITY,
            }),
        ),
    };
    Some(OtlpMetric {
        name: family.name.to_owned(),
        description: family.help.to_owned(),
        unit: unit.to_owned(),
        data: Some(data),
    })
}

fn series_attributes(series: &MetricSeries) -> Vec<KeyValue> {
    let labels = series.labels.iter();
    labels
        .map(|(name, text)| string_attribute((name, text)))
        .collect()
}

/// The start of the series' counts, ns since 1970. It is never after the figures' time, also where the clock was set back
/// meanwhile.
fn series_start_ns(figures: &HostFigures, series: &MetricSeries) -> u64 {
    let since = match series.since_ns {
        0 => figures.started_ns,
        ns => ns,
    };
    since.min(figures.t_ns)
}

fn number_point(figures: &HostFigures, series: &MetricSeries) -> NumberDataPoint {
    let int = |n: u64| NumberValue::Int(i64::try_from(n).unwrap_or(i64::MAX));
    NumberDataPoint {
        attributes: series_attributes(series),
        start_time_unix_nano: series_start_ns(figures, series),
        time_unix_nano: figures.t_ns,
        value: match &series.value {
            SeriesValue::Count(n) | SeriesValue::Gauge(n) => Some(int(*n)),
            SeriesValue::Nanos(ns) => Some(NumberValue::Double(*ns as f64 / 1e9)),
            SeriesValue::Distribution(_) => None,
        },
    }
}

fn histogram_point(figures: &HostFigures, series: &MetricSeries) -> Option<HistogramDataPoint> {
    let SeriesValue::Distribution(times) = &series.value else {
        return None;
    };
    Some(HistogramDataPoint {
        attributes: series_attributes(series),
        start_time_unix_nano: series_start_ns(figures, series),
        time_unix_nano: figures.t_ns,
        count: times.count,
        sum: Some(times.sum_ns as f64 / 1e9),
        bucket_counts: times.buckets.to_vec(),
        explicit_bounds: BUCKET_BOUNDS_NS.iter().map(|ns| *ns as f64 / 1e9).collect(),
    })
}
