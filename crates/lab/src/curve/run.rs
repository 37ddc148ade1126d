//! Measures a curve: all points of all parts in rounds, until the time is spent.

use std::collections::BTreeMap;
use std::io;
use std::process::Command;
use std::time::{Duration, Instant};

use quell_stats::{Rng, median};

use super::worker_handle::CurveWorkerHandle;
use super::{Curve, CurvePart, CurvePlace};
use crate::lengths::round_to_digits;
use crate::tsc::duration_ns;
use crate::worker_answers::StopRequested;

/// The settings of a run.
#[derive(Clone, Debug)]
pub struct CurveOptions {
    /// The CPUs and the memory.
    pub place: CurvePlace,
    /// The time of the run, which one round more may exceed.
    pub budget: Duration,
    /// The seed of the order of the points.
    pub seed: u64,
    /// Says, also in the middle of a batch, whether somebody wants it to end.
    pub stop: StopRequested,
}

/// All that was measured.
#[derive(Debug, Default)]
pub struct MeasuredCurve {
    /// Part by part.
    pub parts: Vec<MeasuredPart>,
    /// Whole rounds.
    pub rounds: usize,
    /// The points that could not be measured, and why.
    pub missing: Vec<String>,
    /// Whether somebody ended it early.
    pub interrupted: bool,
}

/// One part.
#[derive(Debug)]
pub struct MeasuredPart {
    /// The part.
    pub part: CurvePart,
    /// The times by x.
    pub points: BTreeMap<u64, PointTimes>,
}

/// The times of one point.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PointTimes {
    /// The median of each round, ns.
    pub medians: Vec<f64>,
    /// All times, ns to three digits, with their number.
    pub all: BTreeMap<u64, u64>,
}

impl PointTimes {
    /// Adds a round.
    pub fn add_round(&mut self, times: &[f64]) {
        if times.is_empty() {
            return;
        }
        self.medians.push(median(times));
        for ns in times {
            // An hour's times have room.
            let kept = round_to_digits(ns.round() as u64, 3);
            *self.all.entry(kept).or_default() += 1;
        }
    }
}

/// Rounds that a budget is divided into: enough for intervals, and for changes of the machine over some seconds.
const PLANNED_ROUNDS: u128 = 24;

/// Bounds of a batch: a shorter one would be all beginning, a longer one teaches nothing.
const BATCH_BOUNDS: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));

/// The length of a batch for so many points.
fn batch_ns(budget: Duration, points: usize) -> u64 {
    let each = budget.as_nanos() / (PLANNED_ROUNDS * points.max(1) as u128);
    let each = u64::try_from(each).unwrap_or(u64::MAX);
    each.clamp(duration_ns(BATCH_BOUNDS.0), duration_ns(BATCH_BOUNDS.1))
}

/// Measures a curve.
///
/// # Errors
///
/// If none of it can be measured here; why, in words.
pub fn run_curve(
    curve: &'static Curve,
    options: &CurveOptions,
    worker: &dyn Fn() -> Command,
    goes_on: &dyn Fn(usize) -> bool,
) -> io::Result<MeasuredCurve> {
    let until = Instant::now() + options.budget;
    let mut measured = MeasuredCurve::default();
    let mut hands = Vec::new();
    for (at, part) in (curve.parts)(&options.place).into_iter().enumerate() {
        match CurveWorkerHandle::start_worker(
            &mut worker(),
            curve.name,
            at,
            &options.place,
            options.stop,
        ) {
            Ok(hand) => hands.push(hand),
            Err(err) if err.kind() == io::ErrorKind::Interrupted => {
                measured.interrupted = true;
                measured.parts.clear();
                return Ok(measured);
            }
            Err(err) => {
                measured.missing.push(missing_part(&part, &err));
                continue;
            }
        }
        let points = part.xs.iter().map(|x| (*x, PointTimes::default()));
        measured.parts.push(MeasuredPart {
            points: points.collect(),
            part,
        });
    }
    let mut hands: Vec<Option<CurveWorkerHandle>> = hands.into_iter().map(Some).collect();
    let points = measured.parts.iter().map(|p| p.points.len()).sum();
    let ns = batch_ns(options.budget, points);
    let mut rng = Rng::new(options.seed);
    let mut took = Duration::ZERO;
    while measured.rounds == 0 || Instant::now() + took < until {
        let began = Instant::now();
        let Some(round) = measure_round(&mut measured, &mut hands, ns, &mut rng, goes_on) else {
            measured.interrupted = true;
            break;
        };
        if round.is_empty() {
            break;
        }
        for ((part, x), times) in round {
            if let Some(point) = measured.parts[part].points.get_mut(&x) {
                point.add_round(&times);
            }
        }
        measured.rounds += 1;
        took = took.max(began.elapsed());
    }
    for part in &mut measured.parts {
        part.points.retain(|_, times| !times.medians.is_empty());
    }
    measured.parts.retain(|part| !part.points.is_empty());
    if measured.parts.is_empty() && !measured.interrupted {
        return Err(io::Error::other(measured.missing.join("; ")));
    }
    Ok(measured)
}

/// The number of the part, and x.
type PointKey = (usize, u64);

/// Measures every point once, in an order that chance decides. It returns none if somebody wants it to end, for a part of a round
/// would have more of some points than of others. A part that fails is left out from then on.
fn measure_round(
    measured: &mut MeasuredCurve,
    hands: &mut [Option<CurveWorkerHandle>],
    ns: u64,
    rng: &mut Rng,
    goes_on: &dyn Fn(usize) -> bool,
) -> Option<BTreeMap<PointKey, Vec<f64>>> {
    let mut order: Vec<PointKey> = Vec::new();
    for (part, _) in hands.iter().enumerate().filter(|(_, h)| h.is_some()) {
        order.extend(measured.parts[part].points.keys().map(|x| (part, *x)));
    }
    rng.shuffle(&mut order);
    let mut round = BTreeMap::new();
    for (part, x) in order {
        if !goes_on(measured.rounds) {
            return None;
        }
        let Some(hand) = &mut hands[part] else {
            continue;
        };
        match hand.measure_point(x, ns) {
            Ok(times) => {
                round.insert((part, x), times);
            }
            Err(err) if err.kind() == io::ErrorKind::Interrupted => return None,
            Err(err) => {
                let series = measured.parts[part].part.series;
                measured.missing.push(format!("{series} at {x}: {err}"));
                hands[part] = None;
            }
        }
    }
    Some(round)
}

fn missing_part(part: &CurvePart, err: &io::Error) -> String {
    format!("{}: {err}", part.series)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Check that all batches of all rounds fit into a budget that has room for them at all, and that none is endless.
        #[test]
        fn batches_fit(seconds in 1_u64..86_400, points in 1_usize..200) {
            let ns = batch_ns(Duration::from_secs(seconds), points);
            let all = u128::from(ns) * PLANNED_ROUNDS * points as u128;
            prop_assert!((1_000_000..=50_000_000).contains(&ns));
            prop_assert!(all <= u128::from(seconds) * 1_000_000_000 || ns == 1_000_000);
        }

        /// Check that times are counted once each and rounds one by one.
        #[test]
        fn times_are_counted(rounds in prop::collection::vec(prop::collection::vec(0.5_f64..1e9, 0..20), 0..10)) {
            let mut times = PointTimes::default();
            for round in &rounds {
                times.add_round(round);
            }
            prop_assert_eq!(times.medians.len(), rounds.iter().filter(|r| !r.is_empty()).count());
            prop_assert_eq!(times.all.values().sum::<u64>(), rounds.iter().map(Vec::len).sum::<usize>() as u64);
        }
    }
}
