//! The worker of one part, and its orders: a line of JSON an order, a line of JSON an answer.
//!
//! It is a process of its own, with one thread unless its part wants peers. It ends when stdin does, when its parent dies and
//! when an order takes too long; its loops end by the time stamp counter.

use std::io::{self, BufRead, Write};

use serde::{Deserialize, Serialize};

use super::batch::Batch;
use super::{Bench, Place, find};
use crate::pin;
use crate::protocol::{receive, send};
use crate::signals;

/// An order of the lab to a worker.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Order {
    /// Get ready for this part of this curve.
    Setup {
        curve: String,
        part: usize,
        place: Place,
    },
    /// Measure this point for so many ns.
    Batch { x: u64, ns: u64 },
}

/// An answer of a worker to the lab.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Answer {
    /// It is ready.
    Ready,
    /// Times, ns.
    Times(Vec<f64>),
    /// It can't: why, in words.
    Failed(String),
}

/// An order that takes longer ends the worker. The longest are a gigabyte that is written and freed, and a setup that writes some
/// hundred megabytes.
pub(super) const LONGEST: u32 = 60;

/// Works until there are no more orders.
///
/// # Errors
///
/// If the lab has gone, or an order can't be read.
pub fn work(orders: &mut impl BufRead, answers: &mut impl Write) -> io::Result<()> {
    signals::of_a_worker()?;
    let mut batch = Batch::new();
    let mut bench: Option<Box<dyn Bench>> = None;
    while let Some(order) = receive(orders)? {
        // SAFETY: a number only. The signal ends the process, whatever call it is in (alarm(2)).
        unsafe { libc::alarm(LONGEST) };
        let done = match order {
            Order::Setup { curve, part, place } => ready(&curve, part, &place).map(|made| {
                bench = Some(made);
                Answer::Ready
            }),
            Order::Batch { x, ns } => match &mut bench {
                Some(bench) => measure(&mut **bench, x, ns, &mut batch),
                None => Err(io::Error::other("a batch before the setup")),
            },
        };
        // SAFETY: as above; nothing is due any more.
        unsafe { libc::alarm(0) };
        let answer = done.unwrap_or_else(|err| Answer::Failed(err.to_string()));
        send(answers, &answer)?;
    }
    Ok(())
}

fn ready(curve: &str, part: usize, place: &Place) -> io::Result<Box<dyn Bench>> {
    let curve = find(curve).ok_or_else(|| io::Error::other(format!("no curve '{curve}'")))?;
    let parts = (curve.parts)(place);
    let part = parts
        .get(part)
        .ok_or_else(|| io::Error::other(format!("{} has no part {part}", curve.name)))?;
    // The bench prepares its memory on the CPU where it measures.
    pin::to(&[place.cpu])?;
    (part.prepare)(place)
}

fn measure(bench: &mut dyn Bench, x: u64, ns: u64, batch: &mut Batch) -> io::Result<Answer> {
    batch.begin(ns);
    bench.batch(x, batch)?;
    let times = batch.times();
    if times.is_empty() {
        return Err(io::Error::other("what is measured never came about"));
    }
    Ok(Answer::Times(times))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(orders: &[Order]) -> Vec<Answer> {
        let mut text = Vec::new();
        for order in orders {
            send(&mut text, order).unwrap();
        }
        let mut answers = Vec::new();
        // not `work`, which would take Ctrl-C away from the test and end it with its parent
        let mut from = text.as_slice();
        let mut batch = Batch::new();
        let mut bench = None;
        while let Some(order) = receive(&mut from).unwrap() {
            let done = match order {
                Order::Setup { curve, part, place } => ready(&curve, part, &place)
                    .map(|b| bench = Some(b))
                    .map(|()| Answer::Ready),
                Order::Batch { x, ns } => {
                    measure(&mut **bench.as_mut().unwrap(), x, ns, &mut batch)
                }
            };
            answers.push(done.unwrap_or_else(|err| Answer::Failed(err.to_string())));
        }
        answers
    }

    /// Check that what nobody knows is refused in words, and that a known part answers with as many times as it says.
    #[test]
    fn orders_are_answered() {
        if !crate::tsc::is_usable() {
            return;
        }
        let cpus = pin::allowed().unwrap();
        let place = Place {
            cpu: cpus[0],
            others: cpus[1..].to_vec(),
            memory: 1 << 30,
        };
        let setup = |curve: &str, part| Order::Setup {
            curve: curve.to_owned(),
            part,
            place: place.clone(),
        };
        let answers = told(&[
            setup("weather", 0),
            setup("flush-threshold", 99),
            setup("flush-threshold", 0),
            Order::Batch {
                x: 33,
                ns: 1_000_000,
            },
        ]);
        assert!(matches!(&answers[0], Answer::Failed(why) if why.contains("weather")));
        assert!(matches!(&answers[1], Answer::Failed(why) if why.contains("99")));
        assert!(matches!(&answers[2], Answer::Ready));
        assert!(matches!(&answers[3], Answer::Times(t) if t.iter().all(|ns| *ns > 0.0)));
        pin::to(&cpus).unwrap();
    }
}
