//! Figures of a host: families of series, as Prometheus has them, in the order in which they matter.

use quell_event::Histogram;

/// A host has no more series than this, whatever runs on it. They are counted as Prometheus does, where each bucket of a
/// histogram is a series.
pub const MAX_SERIES: usize = 2000;

/// The upper ends of a distribution's buckets, ns: 1-2-5 from 500 ns to 1 s.
pub const BUCKET_BOUNDS_NS: [u64; 20] = [
    500,
    1_000,
    2_000,
    5_000,
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
    200_000_000,
    500_000_000,
    1_000_000_000,
];

/// The value of a series at one time.
#[derive(Clone, Debug, PartialEq)]
pub enum SeriesValue {
    /// A count since the agent started; it never falls.
    Count(u64),
    /// Time in ns since the agent started; it never falls. Formats that count in seconds convert it.
    Nanos(u64),
    /// The present value, which may fall.
    Gauge(u64),
    /// A distribution of times since the agent started.
    Distribution(Box<TimeDistribution>),
}

/// A distribution of times.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TimeDistribution {
    /// For each of [`BUCKET_BOUNDS_NS`] the number of times that lie within it and not within the one before; the last is for
    /// times beyond all.
    pub buckets: [u64; BUCKET_BOUNDS_NS.len() + 1],
    /// Number of times.
    pub count: u64,
    /// Their sum, ns.
    pub sum_ns: u64,
    /// The last interval's median, 99 % and 99.9 % quantiles and maximum, ns.
    pub last_quantiles_ns: [u64; 4],
}

impl TimeDistribution {
    /// Takes all times, and those of the last interval for the quantiles.
    ///
    /// A step of [`Histogram`] that lies across a bound counts as beyond it: the times that a bound counts are surely within it,
    /// and those of the last 3 % below it may be missing there.
    #[must_use]
    pub fn new(all: &Histogram, last: &Histogram) -> Self {
        let mut times = Self {
            count: all.count(),
            sum_ns: all.sum(),
            last_quantiles_ns: [
                last.quantile(0.5),
                last.quantile(0.99),
                last.quantile(0.999),
                last.max(),
            ],
            ..Self::default()
        };
        let mut at = 0;
        for (lowest, n) in all.used_buckets() {
            // The histogram has 32 steps an octave (2^5); below 64 each step is one ns.
            let width = 1 << lowest.max(32).ilog2().saturating_sub(5);
            let end = lowest + width - 1;
            while at < BUCKET_BOUNDS_NS.len() && end > BUCKET_BOUNDS_NS[at] {
                at += 1;
            }
            times.buckets[at] += n;
        }
        times
    }
}

/// One series: labels and a value.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricSeries {
    /// Labels that distinguish it from the other series of its family.
    pub labels: Vec<(&'static str, String)>,
    /// Its present value.
    pub value: SeriesValue,
    /// Start of its counts, ns since 1970; 0 for the agent's start.
    pub since_ns: u64,
}

/// Series of one name.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricFamily {
    /// Its name, without a suffix that a format adds, such as `_total`.
    pub name: &'static str,
    /// One sentence that says what its series count.
    pub help: &'static str,
    /// The series, in the order in which they were added.
    pub series: Vec<MetricSeries>,
}

impl MetricFamily {
    /// A family without series yet.
    #[must_use]
    pub fn new(name: &'static str, help: &'static str) -> Self {
        Self {
            name,
            help,
            series: Vec::new(),
        }
    }

    /// Adds a series.
    pub fn push(&mut self, labels: &[(&'static str, &str)], value: SeriesValue) {
        let labels = labels
            .iter()
            .map(|(name, text)| (*name, (*text).to_owned()));
        self.series.push(MetricSeries {
            labels: labels.collect(),
            value,
            since_ns: 0,
        });
    }

    /// Has all of its series count from this time on, ns since 1970.
    #[must_use]
    pub fn counted_since(mut self, ns: u64) -> Self {
        self.series.iter_mut().for_each(|s| s.since_ns = ns);
        self
    }

    /// A family that has a single series without labels.
    #[must_use]
    pub fn with_value(name: &'static str, help: &'static str, value: SeriesValue) -> Self {
        let mut family = Self::new(name, help);
        family.push(&[], value);
        family
    }
}

/// All figures of a host at one time.
#[derive(Clone, Debug, Default)]
pub struct HostFigures {
    /// The time, ns since 1970.
    pub t_ns: u64,
    /// The agent's start, from which counters count, ns since 1970.
    pub started_ns: u64,
    /// In the order in which they matter: where there are too many, the last give way.
    pub families: Vec<MetricFamily>,
    /// Number of series that exceeded [`MAX_SERIES`] and were left out.
    pub left_out: u64,
}

/// Number of series that Prometheus makes of one value.
fn prometheus_series(value: &SeriesValue) -> usize {
    match value {
        SeriesValue::Distribution(times) => times.buckets.len() + 2,
        _ => 1,
    }
}

impl HostFigures {
    /// Number of series, as Prometheus counts them.
    #[must_use]
    pub fn series_count(&self) -> usize {
        let all = self.families.iter().flat_map(|f| &f.series);
        all.map(|s| prometheus_series(&s.value)).sum()
    }

    /// Leaves out series until there are no more than `most`, and counts them, both as Prometheus counts. Families find room in
    /// their order; a small series may still find some where a larger one before it did not. A family without series goes too.
    pub fn leave_out_beyond(&mut self, most: usize) {
        let mut room = most;
        for family in &mut self.families {
            family.series.retain(|series| {
                let needs = prometheus_series(&series.value);
                let fits = needs <= room;
                if fits {
                    room -= needs;
                } else {
                    self.left_out += needs as u64;
                }
                fits
            });
        }
        self.families.retain(|f| !f.series.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn figures(sizes: &[usize]) -> HostFigures {
        let mut figures = HostFigures::default();
        for &n in sizes {
            let mut family = MetricFamily::new("a", "b");
            for i in 0..n {
                let value = if i % 3 == 0 {
                    SeriesValue::Distribution(Box::default())
                } else {
                    SeriesValue::Count(1)
                };
                family.push(&[("i", &i.to_string())], value);
            }
            figures.families.push(family);
        }
        figures
    }

    proptest! {
        /// Check that no more series are left than may be, that what was left out is counted, and that what fits stays.
        #[test]
        fn series_are_bounded(sizes in prop::collection::vec(0usize..40, 0..8), most in 0usize..400) {
            let mut all = figures(&sizes);
            let before = all.series_count();
            all.leave_out_beyond(most);
            prop_assert!(all.series_count() <= most);
            prop_assert_eq!(all.series_count() as u64 + all.left_out, before as u64);
            if before <= most {
                prop_assert_eq!(all.left_out, 0);
            }
        }

        /// Check that each time lies in a bucket whose bound it does not exceed, and that none is lost.
        #[test]
        fn times_lie_within_bounds(values in prop::collection::vec(0u64..5_000_000_000, 0..100)) {
            let mut all = Histogram::default();
            values.iter().for_each(|&v| all.record(v));
            let times = TimeDistribution::new(&all, &Histogram::default());
            prop_assert_eq!(times.buckets.iter().sum::<u64>(), values.len() as u64);
            let mut within = 0;
            for (bound, n) in BUCKET_BOUNDS_NS.iter().zip(&times.buckets) {
                within += n;
                let exact = values.iter().filter(|&&v| v <= *bound).count() as u64;
                let nearly = values.iter().filter(|&&v| v <= *bound - bound / 31).count() as u64;
                prop_assert!(within <= exact, "{}: {} of {}", bound, within, exact);
                prop_assert!(within >= nearly, "{}: {} of {}", bound, within, nearly);
            }
        }
    }
}
