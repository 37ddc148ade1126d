//! What is told: families of series, as Prometheus has it, in the order in which they matter.

use quell_event::Histogram;

/// A host has no more series than this, whatever runs on it: in Prometheus' own terms, where each bucket of a histogram is
/// one.
pub const MOST_SERIES: usize = 2000;

/// The upper ends of the buckets of times, ns: 1-2-5 from 500 ns to 1 s.
pub const BOUNDS: [u64; 20] = [
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

/// What a series is at one time.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// So many since the agent started; never less than before.
    Count(u64),
    /// So many ns since the agent started; never less than before. Told in seconds where that is the custom.
    Nanos(u64),
    /// How it is now.
    Now(u64),
    /// Times since the agent started.
    Times(Box<Times>),
}

/// A distribution of times.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Times {
    /// How many lie within each of [`BOUNDS`] and not within the one before, and how many beyond all.
    pub buckets: [u64; BOUNDS.len() + 1],
    /// How many.
    pub count: u64,
    /// Their sum, ns.
    pub sum_ns: u64,
    /// Of those of the last interval, ns: the median, what 99 % and 99.9 % don't exceed, and the largest.
    pub last: [u64; 4],
}

impl Times {
    /// Of all times, and of those of the last interval.
    ///
    /// A step of [`Histogram`] that lies across a bound counts as beyond it: bounds are too low by 3 % at most.
    #[must_use]
    pub fn new(all: &Histogram, last: &Histogram) -> Self {
        let mut times = Self {
            count: all.count(),
            sum_ns: all.sum(),
            last: [
                last.quantile(0.5),
                last.quantile(0.99),
                last.quantile(0.999),
                last.max(),
            ],
            ..Self::default()
        };
        let mut at = 0;
        for (lowest, n) in all.steps() {
            // 32 steps an octave
            let width = 1 << lowest.max(32).ilog2().saturating_sub(5);
            let end = lowest + width - 1;
            while at < BOUNDS.len() && end > BOUNDS[at] {
                at += 1;
            }
            times.buckets[at] += n;
        }
        times
    }
}

/// One series.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// What it is told apart by.
    pub labels: Vec<(&'static str, String)>,
    /// What it is.
    pub value: Value,
    /// From when it counts, ns since 1970; 0: from the agent's start.
    pub since_ns: u64,
}

/// Series of one name.
#[derive(Clone, Debug, PartialEq)]
pub struct Family {
    /// Its name, without a suffix that a form adds, such as `_total`.
    pub name: &'static str,
    /// One sentence.
    pub help: &'static str,
    /// They.
    pub series: Vec<Series>,
}

impl Family {
    /// A family without series yet.
    #[must_use]
    pub fn new(name: &'static str, help: &'static str) -> Self {
        Self {
            name,
            help,
            series: Vec::new(),
        }
    }

    /// With one more.
    pub fn push(&mut self, labels: &[(&'static str, &str)], value: Value) {
        let labels = labels
            .iter()
            .map(|(name, text)| (*name, (*text).to_owned()));
        self.series.push(Series {
            labels: labels.collect(),
            value,
            since_ns: 0,
        });
    }

    /// All of its series count from then on, ns since 1970.
    #[must_use]
    pub fn since(mut self, ns: u64) -> Self {
        self.series.iter_mut().for_each(|s| s.since_ns = ns);
        self
    }

    /// One that has a single series without labels.
    #[must_use]
    pub fn one(name: &'static str, help: &'static str, value: Value) -> Self {
        let mut family = Self::new(name, help);
        family.push(&[], value);
        family
    }
}

/// All that is told at one time.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// When, ns since 1970.
    pub t_ns: u64,
    /// When the agent started, ns since 1970: from then on counters count.
    pub started_ns: u64,
    /// In the order in which they matter: the last give way first.
    pub families: Vec<Family>,
    /// Series that found no room among [`MOST_SERIES`].
    pub left_out: u64,
}

/// How many series Prometheus makes of one.
fn weight(value: &Value) -> usize {
    match value {
        Value::Times(times) => times.buckets.len() + 2,
        _ => 1,
    }
}

impl Figures {
    /// How many series these are.
    #[must_use]
    pub fn series(&self) -> usize {
        let all = self.families.iter().flat_map(|f| &f.series);
        all.map(|s| weight(&s.value)).sum()
    }

    /// Leaves out what is more than `most` series.
    pub fn bound(&mut self, most: usize) {
        let mut room = most;
        for family in &mut self.families {
            family.series.retain(|series| {
                let needs = weight(&series.value);
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

    fn figures(sizes: &[usize]) -> Figures {
        let mut figures = Figures::default();
        for &n in sizes {
            let mut family = Family::new("a", "b");
            for i in 0..n {
                let value = if i % 3 == 0 {
                    Value::Times(Box::default())
                } else {
                    Value::Count(1)
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
            let before = all.series();
            all.bound(most);
            prop_assert!(all.series() <= most);
            prop_assert_eq!(all.series() as u64 + all.left_out, before as u64);
            if before <= most {
                prop_assert_eq!(all.left_out, 0);
            }
        }

        /// Check that each time lies in a bucket whose bound it does not exceed, and that none is lost.
        #[test]
        fn times_lie_within_bounds(values in prop::collection::vec(0u64..5_000_000_000, 0..100)) {
            let mut all = Histogram::default();
            values.iter().for_each(|&v| all.record(v));
            let times = Times::new(&all, &Histogram::default());
            prop_assert_eq!(times.buckets.iter().sum::<u64>(), values.len() as u64);
            let mut within = 0;
            for (bound, n) in BOUNDS.iter().zip(&times.buckets) {
                within += n;
                let exact = values.iter().filter(|&&v| v <= *bound).count() as u64;
                let nearly = values.iter().filter(|&&v| v <= *bound - bound / 31).count() as u64;
                prop_assert!(within <= exact, "{}: {} of {}", bound, within, exact);
                prop_assert!(within >= nearly, "{}: {} of {}", bound, within, nearly);
            }
        }
    }
}
