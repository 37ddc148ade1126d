//! The lab's side of a worker: starts it, sends it orders, and ends it.

use std::fmt;
use std::io::{self, Write as _};
use std::process::{Child, ChildStdin, Command};
use std::time::Duration;

use crate::block::RawBlock;
use crate::protocol::{
    BlockOrder, BlockResult, WorkerAnswer, WorkerOrder, WorkerReady, WorkerSetup,
};
use crate::protocol::{receive_line, receive_stamps, send_line};
pub use crate::worker_answers::StopRequested;
use crate::worker_answers::{WorkerAnswers, end_worker, start_worker};

/// An error of a worker that could not follow an order, and can be asked again.
#[derive(Debug)]
pub(crate) struct OperationFailure(pub(crate) String);

impl fmt::Display for OperationFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for OperationFailure {}

/// A worker that is ready. It is killed when dropped.
#[derive(Debug)]
pub struct WorkerHandle {
    child: Child,
    orders: ChildStdin,
    answers: WorkerAnswers,
    ready: WorkerReady,
    /// The longest time that an operation, or its preparation, may take.
    patience: Duration,
    /// The length of the block that was begun.
    block: Duration,
}

impl WorkerHandle {
    /// Starts one by this command, which must call [`crate::worker::serve_orders`], unless somebody wants it to end meanwhile; nor
    /// is such a worker waited for later.
    ///
    /// # Errors
    ///
    /// If it can't be started, or can't get ready, in its own words; and [`io::ErrorKind::Interrupted`].
    pub fn start_worker(
        command: &mut Command,
        setup: &WorkerSetup,
        stop: StopRequested,
    ) -> io::Result<Self> {
        let (child, orders, answers) = start_worker(command, stop)?;
        let mut worker = Self {
            child,
            orders,
            answers,
            ready: WorkerReady {
                victim_tid: 0,
                limit_ns: 0,
                note: None,
            },
            patience: setup.operation_patience(),
            block: Duration::ZERO,
        };
        match worker.send_order(&WorkerOrder::Setup(setup.clone()), "to prepare it")? {
            WorkerAnswer::Ready(ready) => worker.ready = ready,
            WorkerAnswer::Done(_) | WorkerAnswer::Prepared => return Err(unasked_answer()),
            WorkerAnswer::Failed(why) => return Err(io::Error::other(why)),
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
    pub fn ready(&self) -> &WorkerReady {
        &self.ready
    }

    /// Has it prepare a block in which the culprit works once, and waits for that.
    ///
    /// # Errors
    ///
    /// If the worker has gone, or could not; in the kernel's words.
    pub fn prepare_block(&mut self) -> io::Result<()> {
        match self.send_order(&WorkerOrder::Prepare, "to prepare an operation")? {
            WorkerAnswer::Prepared => Ok(()),
            WorkerAnswer::Ready(_) | WorkerAnswer::Done(_) => Err(unasked_answer()),
            WorkerAnswer::Failed(why) => Err(io::Error::other(OperationFailure(why))),
        }
    }

    /// Begins a block.
    ///
    /// # Errors
    ///
    /// If the worker has gone.
    pub fn begin_block(&mut self, block: BlockOrder) -> io::Result<()> {
        self.block = Duration::from_nanos(block.ns);
        send_line(&mut self.orders, &WorkerOrder::Block(block)).map_err(|err| self.gone_error(&err))
    }

    /// Waits for the end of the block.
    ///
    /// # Errors
    ///
    /// If the worker has gone, or the culprit's operation failed; in the kernel's words.
    pub fn end_block(&mut self) -> io::Result<RawBlock> {
        match self.await_answer(self.block.saturating_add(self.patience), "an operation")? {
            WorkerAnswer::Done(done) => self.receive_block(&done),
            WorkerAnswer::Ready(_) | WorkerAnswer::Prepared => Err(unasked_answer()),
            WorkerAnswer::Failed(why) => Err(io::Error::other(OperationFailure(why))),
        }
    }

    fn receive_block(&mut self, done: &BlockResult) -> io::Result<RawBlock> {
        let both = |from: &mut _| {
            let gaps = receive_stamps(from, done.gaps)?;
            Ok((gaps, receive_stamps(from, done.ops)?))
        };
        let (gaps, ops) = self
            .answers
            .receive_within(self.patience, "to tell", both)?;
        Ok(RawBlock::new(done, &gaps, &ops))
    }

    fn send_order(&mut self, order: &WorkerOrder, doing: &str) -> io::Result<WorkerAnswer> {
        send_line(&mut self.orders, order).map_err(|err| self.gone_error(&err))?;
        self.orders.flush()?;
        self.await_answer(self.patience, doing)
    }

    fn await_answer(&mut self, time: Duration, doing: &str) -> io::Result<WorkerAnswer> {
        match self.answers.receive_within(time, doing, receive_line) {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => Err(self.gone_error(&io::ErrorKind::UnexpectedEof.into())),
            Err(err) => Err(err),
        }
    }

    /// The error of a worker that has gone, with its status if there is one.
    fn gone_error(&mut self, err: &io::Error) -> io::Error {
        match self.child.wait() {
            Ok(status) => io::Error::other(format!("the worker has ended: {status}")),
            Err(_) => io::Error::other(format!("the worker has gone: {err}")),
        }
    }
}

fn unasked_answer() -> io::Error {
    io::Error::other("the worker answers what nobody asked")
}

impl Drop for WorkerHandle {
    fn drop(&mut self) {
        end_worker(&mut self.child);
    }
}
