//! A curve as it is written to JSON: the contract `quell/lab-curve/1`.

use quell_stats::median;
use serde::{Deserialize, Serialize};

use super::run::{MeasuredCurve, MeasuredPart, PointTimes};
use super::{Curve, CurvePlace, SampleKind};
use crate::lengths::length_percentile;
use crate::summary::MachineSummary;
use crate::tsc::TscQuality;

/// The name of this contract.
pub const CURVE_SCHEMA: &str = "quell/lab-curve/1";

/// One curve.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CurveSummary {
    /// [`CURVE_SCHEMA`].
    pub schema: String,
    /// The curve's name.
    pub experiment: String,
    /// The quantity that is measured.
    pub about: String,
    /// The unit of all costs.
    pub unit: String,
    /// The unit of x.
    pub x: String,
    /// Rounds in which every point was measured once.
    pub rounds: usize,
    /// Whether it was ended early.
    pub interrupted: bool,
    /// The machine: the operation ran on `culprit_cpu`, its peers on `victim_cpu` first.
    pub machine: MachineSummary,
    /// The lines of the picture.
    pub series: Vec<CurveSeries>,
    /// Remarks that a reader of the result needs, and the points that could not be measured.
    pub notes: Vec<String>,
}

/// One line.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CurveSeries {
    /// Its name.
    pub name: String,
    /// The unit whose cost a figure is.
    pub per: String,
    /// In the order of x.
    pub points: Vec<CurvePoint>,
}

/// One point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// The value of x.
    pub x: u64,
    /// The median of the rounds' medians, ns.
    pub p50: f64,
    /// The 99th percentile of all operations, ns, to three digits. Only where at least 100 lie beyond, and where
    /// operations were timed one by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99: Option<u64>,
    /// The interval that holds the median of the rounds' medians with 95 % certainty; unknown with fewer than six rounds.
    pub ci95: (Option<f64>, Option<f64>),
    /// The number of times.
    pub n: u64,
}

impl CurveSummary {
    /// Sums up a measured curve.
    #[must_use]
    pub fn new(
        curve: &Curve,
        place: &CurvePlace,
        machine: MachineSummary,
        measured: &MeasuredCurve,
    ) -> Self {
        let mut notes: Vec<String> = curve.notes.iter().map(|&note| note.to_owned()).collect();
        notes.extend(curve.place_note.map(|note| note(place)));
        if machine.virtual_machine {
            let vm = "measured in a virtual machine: nothing is said of bare metal";
            notes.push(vm.to_owned());
        }
        if machine.counter == TscQuality::Measured {
            let measured = "this CPU's time stamp counter promises no rate: that it keeps to one was measured for a moment";
            notes.push(measured.to_owned());
        }
        let missing = measured.missing.iter();
        notes.extend(missing.map(|why| format!("not measured: {why}")));
        if measured.rounds < MIN_INTERVAL_ROUNDS {
            let rounds = measured.rounds;
            notes.push(format!(
                "{rounds} rounds are too few for an interval: give it a larger --budget"
            ));
        }
        Self {
            schema: CURVE_SCHEMA.to_owned(),
            experiment: curve.name.to_owned(),
            about: curve.about.to_owned(),
            unit: "ns".to_owned(),
            x: curve.x.to_owned(),
            rounds: measured.rounds,
            interrupted: measured.interrupted,
            machine,
            series: join_series(measured),
            notes,
        }
    }
}

/// Joins parts of the same name, in the order in which names come first.
fn join_series(measured: &MeasuredCurve) -> Vec<CurveSeries> {
    let mut all: Vec<CurveSeries> = Vec::new();
    for MeasuredPart { part, points } in &measured.parts {
        let points = points
            .iter()
            .map(|(x, t)| summarize_point(*x, t, part.sample));
        match all.iter_mut().find(|s| s.name == part.series) {
            Some(series) => series.points.extend(points),
            None => all.push(CurveSeries {
                name: part.series.to_owned(),
                per: part.per.to_owned(),
                points: points.collect(),
            }),
        }
    }
    for series in &mut all {
        series.points.sort_by_key(|p| p.x);
    }
    all
}

fn summarize_point(x: u64, times: &PointTimes, sample: SampleKind) -> CurvePoint {
    let hundredth = |ns: f64| (ns * 100.0).round() / 100.0;
    let ci95 = median_interval(&times.medians);
    CurvePoint {
        x,
        p50: hundredth(median(&times.medians)),
        p99: match sample {
            SampleKind::Operation => length_percentile(&times.all, 99_000),
            SampleKind::Mean => None,
        },
        ci95: (
            ci95.map(|(low, _)| hundredth(low)),
            ci95.map(|(_, high)| hundredth(high)),
        ),
        n: times.all.values().sum(),
    }
}

/// With five values even the least and the largest hold the median in 15 of 16 cases only.
const MIN_INTERVAL_ROUNDS: usize = 6;

/// Where the median lies with 95 % certainty, whatever the values' distribution: the k-th value from both ends, with
/// the largest k at which fewer than k of n fair coins show heads in at most 2.5 % of cases (Conover, *Practical
/// Nonparametric Statistics*, 1999, 3.2). A bootstrap of medians has steps as coarse and falls short with few values.
fn median_interval(values: &[f64]) -> Option<(f64, f64)> {
    let n = values.len();
    if n < MIN_INTERVAL_ROUNDS {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    // P(no heads) is kept as a logarithm: 2^-n is too small for a number from n = 1075 on.
    let mut chance = -(n as f64) * std::f64::consts::LN_2;
    let mut below = chance.exp();
    let mut k = 0;
    while below <= 0.025 && k < n / 2 {
        k += 1;
        chance += ((n - k + 1) as f64 / k as f64).ln();
        below += chance.exp();
    }
    let at = k.saturating_sub(1);
    Some((*sorted.get(at)?, *sorted.get(n - 1 - at)?))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use quell_stats::{Rng, quantile};

    use super::super::CurvePart;
    use super::*;
    use crate::lengths::MIN_LENGTHS_BEYOND;

    /// Check the places against the table of the sign test, and that few values give no interval.
    #[test]
    fn places_of_the_table() {
        let places = |n: u32| {
            let values: Vec<f64> = (1..=n).map(f64::from).collect();
            median_interval(&values)
        };
        assert_eq!(places(5), None);
        assert_eq!(places(6), Some((1.0, 6.0)));
        assert_eq!(places(8), Some((1.0, 8.0)));
        assert_eq!(places(9), Some((2.0, 8.0)));
        assert_eq!(places(20), Some((6.0, 15.0)));
        assert_eq!(places(25), Some((8.0, 18.0)));
        assert_eq!(places(100), Some((40.0, 61.0)));
        // by the bell curve: 5000.5 - 1.96 * 50
        let (low, high) = places(10_000).unwrap();
        assert!((low - 4902.5).abs() < 2.0 && (high - 5098.5).abs() < 2.0);
    }

    /// Check that the interval holds the true median in at least 95 of 100 cases, with few values of a skewed kind.
    #[test]
    fn holds_the_truth() {
        let mut rng = Rng::new(3);
        for n in [6, 10, 24] {
            let mut held = 0;
            for _ in 0..4000 {
                let values: Vec<f64> = (0..n).map(|_| -(1.0 - rng.next_unit()).ln()).collect();
                let (low, high) = median_interval(&values).unwrap();
                let truth = std::f64::consts::LN_2;
                held += u32::from(low <= truth && truth <= high);
            }
            assert!(held >= 3780, "{n} values: {held} of 4000");
        }
    }

    proptest! {
        /// Check that the interval is made of values that occurred and has their median within.
        #[test]
        fn interval_holds_the_median(values in prop::collection::vec(0.0_f64..1e9, 6..200)) {
            let (low, high) = median_interval(&values).unwrap();
            prop_assert!(values.contains(&low) && values.contains(&high));
            prop_assert!(low <= median(&values) && median(&values) <= high);
        }

        /// Check that the percentile is a time that occurred with at most one of a hundred beyond it, that it is within one
        /// rank of the textbook's, and that none is told where fewer than 100 lie beyond.
        #[test]
        fn p99_has_enough_beyond(times in prop::collection::vec(0_u64..5000, 1..400), of_each in 1_u64..100) {
            let mut all = BTreeMap::new();
            for ns in &times {
                *all.entry(*ns).or_insert(0) += of_each;
            }
            let total: u64 = all.values().sum();
            let told = length_percentile(&all, 99_000);
            prop_assert_eq!(told.is_some(), total >= 10_000);
            if let Some(at) = told {
                let beyond: u64 = all.range(at + 1..).map(|(_, n)| n).sum();
                let from: u64 = all.range(at..).map(|(_, n)| n).sum();
                prop_assert!(all.contains_key(&at));
                prop_assert!(beyond <= total / 100 && from >= MIN_LENGTHS_BEYOND);
                let every: Vec<f64> = all.iter().flat_map(|(ns, n)| std::iter::repeat_n(*ns as f64, *n as usize)).collect();
                let (low, high) = (quantile(&every, 0.9898), quantile(&every, 0.9902));
                prop_assert!(low.floor() <= at as f64 && at as f64 <= high.ceil());
            }
        }

        /// Check that parts of one name become one series in the order of x, that no point is lost, and that means have no
        /// percentile however many there are.
        #[test]
        fn parts_become_series(xs in prop::collection::btree_set(0_u64..100, 1..10), mean in any::<bool>()) {
            let mut times = PointTimes::default();
            for _ in 0..6 {
                times.add_round(&[5.0; 2000]);
            }
            let sample = if mean { SampleKind::Mean } else { SampleKind::Operation };
            let parts = xs.iter().rev().map(|x| MeasuredPart {
                part: CurvePart {
                    series: "one",
                    per: "call",
                    sample,
                    xs: vec![*x],
                    prepare: Box::new(|_| Err(std::io::Error::other("no bench"))),
                },
                points: BTreeMap::from([(*x, times.clone())]),
            });
            let measured = MeasuredCurve { parts: parts.collect(), rounds: 6, ..MeasuredCurve::default() };
            let all = join_series(&measured);
            prop_assert_eq!(all.len(), 1);
            prop_assert_eq!(all[0].points.iter().map(|p| p.x).collect::<Vec<_>>(), xs.into_iter().collect::<Vec<_>>());
            for p in &all[0].points {
                prop_assert_eq!((p.p50, p.ci95, p.n), (5.0, (Some(5.0), Some(5.0)), 12_000));
                prop_assert_eq!(p.p99, (!mean).then_some(5));
            }
        }
    }
}
