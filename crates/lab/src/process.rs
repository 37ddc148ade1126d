//! The lab's side of a worker: starts it, sends it orders, and ends it.

use std::fmt;
use std::io::{self, Write as _};
use std::process::{Child, ChildStdin, Command};
use std::time::Duration;

pub use crate::answers::Stop;
use crate::answers::{Answers, end, start};
use crate::block::Raw;
use crate::protocol::{Answer, Block, Done, Order, Ready, Setup};
use crate::protocol::{receive, receive_stamps, send};

/// An error of a worker that could not follow an order, and can be asked again.
#[derive(Debug)]
pub(crate) struct Failed(pub(crate) String);

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failed {}

/// A worker that is ready. It is killed when dropped.
#[derive(Debug)]
pub struct Worker {
    child: Child,
    orders: ChildStdin,
    answers: Answers,
    ready: Ready,
    /// The longest time that an operation, or its preparation, may take.
    patience: Duration,
    /// The length of the block that was begun.
    block: Duration,
}

impl Worker {
    /// Starts one by this command, which must call [`crate::worker::serve_orders`].
    ///
    /// # Errors
    ///
    /// If it can't be started, or can't get ready; in its own words.
    pub fn start(command: &mut Command, setup: &Setup) -> io::Result<Self> {
        Self::start_unless(command, setup, || false)
    }

    /// The same, unless somebody wants it to end meanwhile; nor is such a worker waited for later.
    ///
    /// # Errors
    ///
    /// The same, and [`io::ErrorKind::Interrupted`].
    pub fn start_unless(command: &mut Command, setup: &Setup, stop: Stop) -> io::Result<Self> {
        let (child, orders, answers) = start(command, stop)?;
        let mut worker = Self {
            child,
            orders,
            answers,
            ready: Ready {
                victim_tid: 0,
                limit_ns: 0,
                note: None,
            },
            patience: setup.patience(),
            block: Duration::ZERO,
        };
        match worker.ask(&Order::Setup(setup.clone()), "to prepare it")? {
            Answer::Ready(ready) => worker.ready = ready,
            Answer::Done(_) | Answer::Prepared => return Err(unasked()),
            Answer::Failed(why) => return Err(io::Error::other(why)),
        }
        Ok(worker)
    }

    /// The number of its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The worker's answer when it was ready.
    #[must_use]
    pub fn ready(&self) -> &Ready {
        &self.ready
    }

    /// Has it prepare a block in which the culprit works once, and waits for that.
    ///
    /// # Errors
    ///
    /// If the worker has gone, or could not; in the kernel's words.
    pub fn prepare(&mut self) -> io::Result<()> {
        match self.ask(&Order::Prepare, "to prepare an operation")? {
            Answer::Prepared => Ok(()),
            Answer::Ready(_) | Answer::Done(_) => Err(unasked()),
            Answer::Failed(why) => Err(io::Error::other(Failed(why))),
        }
    }

    /// Begins a block.
    ///
    /// # Errors
    ///
    /// If the worker has gone.
    pub fn begin(&mut self, block: Block) -> io::Result<()> {
        self.block = Duration::from_nanos(block.ns);
        send(&mut self.orders, &Order::Block(block)).map_err(|err| self.gone(&err))
    }

    /// Waits for the end of the block.
    ///
    /// # Errors
    ///
    /// If the worker has gone, or the culprit's operation failed; in the kernel's words.
    pub fn end(&mut self) -> io::Result<Raw> {
        match self.answer(self.block.saturating_add(self.patience), "an operation")? {
            Answer::Done(done) => self.stamps(&done),
            Answer::Ready(_) | Answer::Prepared => Err(unasked()),
            Answer::Failed(why) => Err(io::Error::other(Failed(why))),
        }
    }

    fn stamps(&mut self, done: &Done) -> io::Result<Raw> {
        let both = |from: &mut _| {
            let gaps = receive_stamps(from, done.gaps)?;
            Ok((gaps, receive_stamps(from, done.ops)?))
        };
        let (gaps, ops) = self.answers.within(self.patience, "to tell", both)?;
        Ok(Raw::new(done, &gaps, &ops))
    }

    fn ask(&mut self, order: &Order, doing: &str) -> io::Result<Answer> {
        send(&mut self.orders, order).map_err(|err| self.gone(&err))?;
        self.orders.flush()?;
        self.answer(self.patience, doing)
    }

    fn answer(&mut self, time: Duration, doing: &str) -> io::Result<Answer> {
        match self.answers.within(time, doing, receive) {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => Err(self.gone(&io::ErrorKind::UnexpectedEof.into())),
            Err(err) => Err(err),
        }
    }

    /// The error of a worker that has gone, with its status if there is one.
    fn gone(&mut self, err: &io::Error) -> io::Error {
        match self.child.wait() {
            Ok(status) => io::Error::other(format!("the worker has ended: {status}")),
            Err(_) => io::Error::other(format!("the worker has gone: {err}")),
        }
    }
}

fn unasked() -> io::Error {
    io::Error::other("the worker answers what nobody asked")
}

impl Drop for Worker {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}
