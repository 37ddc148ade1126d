//! The lab's side of a part's worker.

use std::io::{self, BufReader};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use super::Place;
use super::worker::{Answer, Order};
use crate::protocol::{receive, send};

/// A worker that is ready. It is killed when dropped.
#[derive(Debug)]
pub(super) struct Hand {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Hand {
    /// Starts one by this command, which must call [`super::work`].
    pub(super) fn start(
        command: &mut Command,
        curve: &str,
        part: usize,
        place: &Place,
    ) -> io::Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (Some(orders), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("no pipes to the worker"));
        };
        let mut hand = Self {
            child,
            orders,
            answers: BufReader::new(answers),
        };
        let setup = Order::Setup {
            curve: curve.to_owned(),
            part,
            place: place.clone(),
        };
        match hand.ask(&setup)? {
            Answer::Ready => Ok(hand),
            Answer::Times(_) => Err(io::Error::other("times that nobody asked for")),
            Answer::Failed(why) => Err(io::Error::other(why)),
        }
    }

    /// Has it measure a point.
    pub(super) fn batch(&mut self, x: u64, ns: u64) -> io::Result<Vec<f64>> {
        match self.ask(&Order::Batch { x, ns })? {
            Answer::Times(times) => Ok(times),
            Answer::Ready => Err(io::Error::other("a worker that got ready twice")),
            Answer::Failed(why) => Err(io::Error::other(why)),
        }
    }

    fn ask(&mut self, order: &Order) -> io::Result<Answer> {
        let sent = send(&mut self.orders, order);
        match sent.and_then(|()| receive(&mut self.answers)) {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => Err(self.gone()),
            Err(err) if err.kind() == io::ErrorKind::BrokenPipe => Err(self.gone()),
            Err(err) => Err(err),
        }
    }

    /// How it went.
    fn gone(&mut self) -> io::Error {
        match self.child.wait() {
            Ok(status) => io::Error::other(format!("the worker has ended: {status}")),
            Err(err) => err,
        }
    }
}

impl Drop for Hand {
    fn drop(&mut self) {
        // it may have ended already, which is all that is wanted
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
