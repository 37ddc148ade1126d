//! The lab's side of the worker of a part.

use std::io;
use std::process::{Child, ChildStdin, Command};
use std::time::Duration;

use super::CurvePlace;
use super::worker::{CurveAnswer, CurveOrder, MAX_ORDER_SECONDS};
use crate::protocol::{receive_line, send_line};
use crate::worker_answers::{StopRequested, WorkerAnswers, end_worker, start_worker};

/// A worker that is ready. It is killed when dropped.
#[derive(Debug)]
pub(super) struct CurveWorkerHandle {
    child: Child,
    orders: ChildStdin,
    answers: WorkerAnswers,
}

impl CurveWorkerHandle {
    /// Starts one by this command, which must call [`super::serve_orders`].
    pub(super) fn start_worker(
        command: &mut Command,
        curve: &str,
        part: usize,
        place: &CurvePlace,
        stop: StopRequested,
    ) -> io::Result<Self> {
        let (child, orders, answers) = start_worker(command, stop)?;
        let mut hand = Self {
            child,
            orders,
            answers,
        };
        let setup = CurveOrder::Setup {
            curve: curve.to_owned(),
            part,
            place: place.clone(),
        };
        match hand.send_order(&setup, "to prepare it")? {
            CurveAnswer::Ready => Ok(hand),
            CurveAnswer::Times(_) => Err(io::Error::other("times that nobody asked for")),
            CurveAnswer::Failed(why) => Err(io::Error::other(why)),
        }
    }

    /// Has it measure a point for so many ns.
    pub(super) fn measure_point(&mut self, x: u64, ns: u64) -> io::Result<Vec<f64>> {
        match self.send_order(&CurveOrder::TimeBatch { x, ns }, "a batch")? {
            CurveAnswer::Times(times) => Ok(times),
            CurveAnswer::Ready => Err(io::Error::other("a worker that got ready twice")),
            CurveAnswer::Failed(why) => Err(io::Error::other(why)),
        }
    }

    fn send_order(&mut self, order: &CurveOrder, doing: &str) -> io::Result<CurveAnswer> {
        // The worker's own alarm comes first, unless the worker is stopped.
        let time = Duration::from_secs((MAX_ORDER_SECONDS + 10).into());
        let sent = send_line(&mut self.orders, order);
        match sent.and_then(|()| self.answers.receive_within(time, doing, receive_line)) {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => Err(self.ended_error()),
            Err(err) if err.kind() == io::ErrorKind::BrokenPipe => Err(self.ended_error()),
            Err(err) => Err(err),
        }
    }

    /// The error of a worker that has ended, with its status.
    fn ended_error(&mut self) -> io::Error {
        match self.child.wait() {
            Ok(status) => io::Error::other(format!("the worker has ended: {status}")),
            Err(err) => err,
        }
    }
}

impl Drop for CurveWorkerHandle {
    fn drop(&mut self) {
        end_worker(&mut self.child);
    }
}
