//! The worker of one part, and its orders: a line of JSON an order, a line of JSON an answer.
//!
//! It is a process of its own, with one thread unless its part wants peers. It ends when stdin does, when its parent dies and
//! when an order takes too long; its loops end by the time stamp counter.

use std::io::{self, BufRead, Write};

use serde::{Deserialize, Serialize};

use super::batch::TimeBatch;
use super::{CurveBench, CurvePlace, curve_by_name};
use crate::pin;
use crate::protocol::{receive_line, send_line};
use crate::worker_signals;

/// An order of the lab to a worker.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum CurveOrder {
    /// Get ready for this part of this curve.
    Setup {
        curve: String,
        part: usize,
        place: CurvePlace,
    },
    /// Measure this point for so many ns.
    TimeBatch { x: u64, ns: u64 },
}

/// An answer of a worker to the lab.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum CurveAnswer {
    /// It is ready.
    Ready,
    /// Times, ns.
    Times(Vec<f64>),
    /// It can't: why, in words.
    Failed(String),
}

/// An order that takes longer ends the worker. The longest are a gigabyte that is written and freed, and a setup that writes some
/// hundred megabytes.
pub(super) const MAX_ORDER_SECONDS: u32 = 60;

/// Works until there are no more orders.
///
/// # Errors
///
/// If the lab has gone, or an order can't be read.
pub fn serve_orders(orders: &mut impl BufRead, answers: &mut impl Write) -> io::Result<()> {
    worker_signals::set_worker_signals()?;
    let mut batch = TimeBatch::new();
    let mut bench: Option<Box<dyn CurveBench>> = None;
    while let Some(order) = receive_line(orders)? {
        // SAFETY: a number only. The signal ends the process, whatever call it is in (alarm(2)).
        unsafe { libc::alarm(MAX_ORDER_SECONDS) };
        let done = match order {
            CurveOrder::Setup { curve, part, place } => {
                prepare_bench(&curve, part, &place).map(|made| {
                    bench = Some(made);
                    CurveAnswer::Ready
                })
            }
            CurveOrder::TimeBatch { x, ns } => match &mut bench {
                Some(bench) => answer_batch(&mut **bench, x, ns, &mut batch),
                None => Err(io::Error::other("a batch before the setup")),
            },
        };
        // SAFETY: as above; nothing is due any more.
        unsafe { libc::alarm(0) };
        let answer = done.unwrap_or_else(|err| CurveAnswer::Failed(err.to_string()));
        send_line(answers, &answer)?;
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

fn answer_batch(
    bench: &mut dyn CurveBench,
    x: u64,
    ns: u64,
    batch: &mut TimeBatch,
) -> io::Result<CurveAnswer> {
    batch.begin_batch(ns);
    bench.measure_batch(x, batch)?;
    let times = batch.times();
    if times.is_empty() {
        return Err(io::Error::other("what is measured never came about"));
    }
    Ok(CurveAnswer::Times(times))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(orders: &[CurveOrder]) -> Vec<CurveAnswer> {
        let mut text = Vec::new();
        for order in orders {
            send_line(&mut text, order).unwrap();
        }
        let mut answers = Vec::new();
        // not `work`, which would take Ctrl-C away from the test and end it with its parent
        let mut from = text.as_slice();
        let mut batch = TimeBatch::new();
        let mut bench = None;
        while let Some(order) = receive_line(&mut from).unwrap() {
            let done = match order {
                CurveOrder::Setup { curve, part, place } => prepare_bench(&curve, part, &place)
                    .map(|b| bench = Some(b))
                    .map(|()| CurveAnswer::Ready),
                CurveOrder::TimeBatch { x, ns } => {
                    answer_batch(&mut **bench.as_mut().unwrap(), x, ns, &mut batch)
                }
            };
            answers.push(done.unwrap_or_else(|err| CurveAnswer::Failed(err.to_string())));
        }
        answers
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
        let answers = told(&[
            setup("weather", 0),
            setup("flush-threshold", 99),
            setup("flush-threshold", 0),
            CurveOrder::TimeBatch {
                x: 33,
                ns: 1_000_000,
            },
        ]);
        assert!(matches!(&answers[0], CurveAnswer::Failed(why) if why.contains("weather")));
        assert!(matches!(&answers[1], CurveAnswer::Failed(why) if why.contains("99")));
        assert!(matches!(&answers[2], CurveAnswer::Ready));
        assert!(matches!(&answers[3], CurveAnswer::Times(t) if t.iter().all(|ns| *ns > 0.0)));
        pin::pin_self(&cpus).unwrap();
    }
}
