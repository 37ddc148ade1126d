//! The lab's side of a worker process: starts it, sends it orders, receives its answers, and ends it.

use std::io::{self, BufReader};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::protocol::{receive_line, send_line};
use crate::worker_answers::{BoundedOutput, StopRequested, WorkerAnswers};

/// A worker with its pipes. It is killed when dropped.
#[derive(Debug)]
pub(crate) struct WorkerProcess {
    child: Child,
    orders: ChildStdin,
    answers: WorkerAnswers,
}

impl WorkerProcess {
    /// Starts one, which is not waited for any more once somebody wants it to end.
    pub(crate) fn start(command: &mut Command, stop: StopRequested) -> io::Result<Self> {
        let mut child = command
            // Ctrl-C goes to the terminal's whole foreground group; but the lab decides when its workers end.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (Some(orders), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("no pipes to the worker"));
        };
        Ok(Self {
            child,
            orders,
            answers: WorkerAnswers::new(from, stop),
        })
    }

    /// The number of the process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn send_order(&mut self, order: &impl Serialize) -> io::Result<()> {
        send_line(&mut self.orders, order).map_err(|err| self.gone_error(&err))
    }

    /// Receives the answer to the latest order: a result, or in the worker's words why there is none. Errors call that order
    /// `doing`.
    pub(crate) fn receive_answer<T: DeserializeOwned>(
        &mut self,
        time: Duration,
        doing: &str,
    ) -> io::Result<Result<T, String>> {
        let answer = self.receive_within(time, doing, receive_line)?;
        answer.ok_or_else(|| self.gone_error(&io::ErrorKind::UnexpectedEof.into()))
    }

    /// Sends an order and receives the answer.
    pub(crate) fn ask<T: DeserializeOwned>(
        &mut self,
        order: &impl Serialize,
        time: Duration,
        doing: &str,
    ) -> io::Result<Result<T, String>> {
        self.send_order(order)?;
        self.receive_answer(time, doing)
    }

    /// Reads what follows an answer.
    pub(crate) fn receive_within<T>(
        &mut self,
        time: Duration,
        doing: &str,
        receive: impl FnOnce(&mut BufReader<BoundedOutput>) -> io::Result<T>,
    ) -> io::Result<T> {
        self.answers.receive_within(time, doing, receive)
    }

    /// The error of a worker that has gone, with its status if there is one.
    fn gone_error(&mut self, err: &io::Error) -> io::Error {
        match self.child.wait() {
            Ok(status) => io::Error::other(format!("the worker has ended: {status}")),
            Err(_) => io::Error::other(format!("the worker has gone: {err}")),
        }
    }
}

/// Ends the worker, and waits until it has gone: but not for ever for one that waits for a disk, which goes when the disk answers.
impl Drop for WorkerProcess {
    fn drop(&mut self) {
        const MAX_END_WAIT: Duration = Duration::from_secs(20);
        const END_CHECK_INTERVAL: Duration = Duration::from_millis(1);
        // It may have ended already, which is as good.
        let _ = self.child.kill();
        let until = Instant::now() + MAX_END_WAIT;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < until {
            thread::sleep(END_CHECK_INTERVAL);
        }
    }
}
