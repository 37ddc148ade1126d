//! The lab's side of a worker with a victim or a culprit.

use std::fmt;
use std::io;
use std::process::Command;
use std::time::Duration;

use crate::block::RawBlock;
use crate::protocol::receive_stamps;
use crate::protocol::{BlockOrder, BlockResult, WorkerOrder, WorkerReady, WorkerSetup};
pub use crate::worker_answers::StopRequested;
use crate::worker_process::WorkerProcess;

/// An error of a worker that could not follow an order, and can be asked again.
#[derive(Debug)]
pub(crate) struct OperationFailure(pub(crate) String);

impl fmt::Display for OperationFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for OperationFailure {}

fn operation_error(why: String) -> io::Error {
    io::Error::other(OperationFailure(why))
}

/// A worker that is ready. It is killed when dropped.
#[derive(Debug)]
pub struct WorkerHandle {
    process: WorkerProcess,
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
        let mut process = WorkerProcess::start(command, stop)?;
        let patience = setup.operation_patience();
        let order = WorkerOrder::Setup(setup.clone());
        let ready = process.ask(&order, patience, "to prepare it")?;
        Ok(Self {
            process,
            ready: ready.map_err(io::Error::other)?,
            patience,
            block: Duration::ZERO,
        })
    }

    /// The number of its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.pid()
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
        let doing = "to prepare an operation";
        let prepared = self
            .process
            .ask(&WorkerOrder::Prepare, self.patience, doing)?;
        prepared.map_err(operation_error)
    }

    /// Begins a block.
    ///
    /// # Errors
    ///
    /// If the worker has gone.
    pub fn begin_block(&mut self, block: BlockOrder) -> io::Result<()> {
        self.block = Duration::from_nanos(block.ns);
        self.process.send_order(&WorkerOrder::Block(block))
    }

    /// Waits for the end of the block.
    ///
    /// # Errors
    ///
    /// If the worker has gone, or the culprit's operation failed; in the kernel's words.
    pub fn end_block(&mut self) -> io::Result<RawBlock> {
        let time = self.block.saturating_add(self.patience);
        let done = self.process.receive_answer(time, "an operation")?;
        let done: BlockResult = done.map_err(operation_error)?;
        let both = |from: &mut _| {
            let gaps = receive_stamps(from, done.gaps)?;
            Ok((gaps, receive_stamps(from, done.ops)?))
        };
        let stamps = self.process.receive_within(self.patience, "to tell", both);
        let (gaps, ops) = stamps?;
        Ok(RawBlock::new(&done, &gaps, &ops))
    }
}
