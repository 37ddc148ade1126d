//! The lab's side of the worker of a part.

use std::io;
use std::process::{Child, ChildStdin, Command};
use std::time::Duration;

use super::Place;
use super::worker::{Answer, LONGEST, Order};
use crate::answers::{Answers, Stop, end, start};
use crate::protocol::{receive, send};

/// A worker that is ready. It is killed when dropped.
#[derive(Debug)]
pub(super) struct Hand {
    child: Child,
    orders: ChildStdin,
    answers: Answers,
}

impl Hand {
    /// Starts one by this command, which must call [`super::serve_orders`].
    pub(super) fn start(
        command: &mut Command,
        curve: &str,
        part: usize,
        place: &Place,
        stop: Stop,
    ) -> io::Result<Self> {
        let (child, orders, answers) = start(command, stop)?;
        let mut hand = Self {
            child,
            orders,
            answers,
        };
        let setup = Order::Setup {
            curve: curve.to_owned(),
            part,
            place: place.clone(),
        };
        match hand.ask(&setup, "to prepare it")? {
            Answer::Ready => Ok(hand),
            Answer::Times(_) => Err(io::Error::other("times that nobody asked for")),
            Answer::Failed(why) => Err(io::Error::other(why)),
        }
    }

    /// Has it measure a point for so many ns.
    pub(super) fn batch(&mut self, x: u64, ns: u64) -> io::Result<Vec<f64>> {
        match self.ask(&Order::Batch { x, ns }, "a batch")? {
            Answer::Times(times) => Ok(times),
            Answer::Ready => Err(io::Error::other("a worker that got ready twice")),
            Answer::Failed(why) => Err(io::Error::other(why)),
        }
    }

    fn ask(&mut self, order: &Order, doing: &str) -> io::Result<Answer> {
        // The worker's own alarm comes first, unless the worker is stopped.
        let time = Duration::from_secs((LONGEST + 10).into());
        let sent = send(&mut self.orders, order);
        match sent.and_then(|()| self.answers.within(time, doing, receive)) {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => Err(self.gone()),
            Err(err) if err.kind() == io::ErrorKind::BrokenPipe => Err(self.gone()),
            Err(err) => Err(err),
        }
    }

    /// The error of a worker that has ended, with its status.
    fn gone(&mut self) -> io::Error {
        match self.child.wait() {
            Ok(status) => io::Error::other(format!("the worker has ended: {status}")),
            Err(err) => err,
        }
    }
}

impl Drop for Hand {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}
