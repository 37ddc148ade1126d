//! The worker of one part, and its orders: a line of JSON an order, a line of JSON an answer.
//!
//! It is a process of its own, with one thread unless its part wants peers. It ends when stdin does, when its parent dies and
//! when an order takes too long; its loops end by the time stamp counter.

use std::io::{self, BufRead, Write};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::batch::TimeBatch;
use super::{CurveBench, CurvePlace, curve_by_name};
use crate::pin;
use crate::protocol::receive_line;
use crate::worker_signals::{send_answer, set_alarm, set_worker_signals};

/// An order of the lab to a worker. The answer is a result, or in words why there is none.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum CurveOrder {
    /// Get ready for this part of this curve.
    Setup {
        curve: String,
        part: usize,
        place: CurvePlace,
    },
    /// Measure this point for so many ns; the answer is the times, ns.
    TimeBatch { x: u64, ns: u64 },
}

/// An order that takes longer ends the worker. The longest are a gigabyte that is written and freed, and a setup that writes some
/// hundred megabytes.
pub(super) const MAX_ORDER_TIME: Duration = Duration::from_secs(60);

/// Works until there are no more orders.
///
/// # Errors
///
/// If the lab has gone, or an order can't be read.
pub fn serve_orders(orders: &mut impl BufRead, answers: &mut impl Write) -> io::Result<()> {
    set_worker_signals()?;
    let mut batch = TimeBatch::new();
    let mut bench: Option<Box<dyn CurveBench>> = None;
    while let Some(order) = receive_line(orders)? {
        set_alarm(MAX_ORDER_TIME);
        match order {
            CurveOrder::Setup { curve, part, place } => {
                let made = prepare_bench(&curve, part, &place);
                send_answer(answers, made.map(|made| bench = Some(made)))?;
            }
            CurveOrder::TimeBatch { x, ns } => {
                let bench = bench.as_mut();
                let bench = bench.ok_or_else(|| io::Error::other("a batch before the setup"));
                let times = bench.and_then(|bench| measure_times(&mut **bench, x, ns, &mut batch));
                send_answer(answers, times)?;
            }
        }
    }
    Ok(())
}

fn prepare_bench(curve: &str, part: usize, place: &CurvePlace) -> io::Result<Box<dyn CurveBench>> {
    let curve =
        curve_by_name(curve).ok_or_else(|| io::Error::other(format!("no curve '{curve}'")))?;
    let parts = (curve.parts)(place);
    let part = parts
        .get(part)
        .ok_or_else(|| io::Error::other(format!("{} has no part {part}", curve.name)))?;
    // The bench prepares its memory on the CPU where it measures.
    pin::pin_self(&[place.cpu])?;
    (part.prepare)(place)
}

fn measure_times(
    bench: &mut dyn CurveBench,
    x: u64,
    ns: u64,
    batch: &mut TimeBatch,
) -> io::Result<Vec<f64>> {
    batch.begin_batch(ns);
    bench.measure_batch(x, batch)?;
    let times = batch.times();
    if times.is_empty() {
        return Err(io::Error::other("what is measured never came about"));
    }
    Ok(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(orders: Vec<CurveOrder>) -> Vec<io::Result<Vec<f64>>> {
        let mut batch = TimeBatch::new();
        let mut bench = None;
        // not `serve_orders`, which would take Ctrl-C away from the test and end it with its parent
        let mut answer = |order| match order {
            CurveOrder::Setup { curve, part, place } => {
                bench = Some(prepare_bench(&curve, part, &place)?);
                Ok(Vec::new())
            }
            CurveOrder::TimeBatch { x, ns } => {
                measure_times(&mut **bench.as_mut().unwrap(), x, ns, &mut batch)
            }
        };
        orders.into_iter().map(&mut answer).collect()
    }

    /// Check that what nobody knows is refused in words, and that a known part answers with as many times as it says.
    #[test]
    fn orders_are_answered() {
        if crate::tsc::tsc_quality().is_err() {
            return;
        }
        let cpus = pin::allowed_cpus().unwrap();
        let place = CurvePlace {
            cpu: cpus[0],
            others: cpus[1..].to_vec(),
            memory: 1 << 30,
        };
        let setup = |curve: &str, part| CurveOrder::Setup {
            curve: curve.to_owned(),
            part,
            place: place.clone(),
        };
        let answers = told(vec![
            setup("weather", 0),
            setup("flush-threshold", 99),
            setup("flush-threshold", 0),
            CurveOrder::TimeBatch {
                x: 33,
                ns: 1_000_000,
            },
        ]);
        let refused = |at: usize| answers[at].as_ref().unwrap_err().to_string();
        assert!(refused(0).contains("weather") && refused(1).contains("99"));
        assert!(answers[2].is_ok());
        let times = answers[3].as_ref().unwrap();
        assert!(!times.is_empty() && times.iter().all(|ns| *ns > 0.0));
        pin::pin_self(&cpus).unwrap();
    }
}
