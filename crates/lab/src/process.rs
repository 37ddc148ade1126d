//! The lab's side of a worker: starts it, tells it what to do, and ends it.

use std::io::{self, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::block::Raw;
use crate::protocol::{Answer, Block, Done, Order, Ready, Setup};
use crate::protocol::{receive, receive_stamps, send};

/// Says whether somebody wants it all to end. It is asked while a worker is waited for, which may take seconds to
/// prepare or give back gigabytes.
pub type Stop = fn() -> bool;

/// How often it is asked.
const NAP: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};

/// A worker that is ready. It is killed when dropped.
#[derive(Debug)]
pub struct Worker {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
    ready: Ready,
    stop: Stop,
}

impl Worker {
    /// Starts one by this command, which must call [`crate::worker::work`].
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
        let mut child = command
            // Ctrl-C goes to the terminal's whole foreground group: what becomes of a worker is the lab's to say
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (Some(orders), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("no pipes to the worker"));
        };
        let mut worker = Self {
            child,
            orders,
            answers: BufReader::new(answers),
            ready: Ready {
                victim_tid: 0,
                limit_ticks: 0,
                limit_ns: 0,
            },
            stop,
        };
        match worker.ask(&Order::Setup(setup.clone()))? {
            Answer::Ready(ready) => worker.ready = ready,
            Answer::Done(_) | Answer::Prepared => return Err(unasked()),
            Answer::Failed(why) => return Err(io::Error::other(why)),
        }
        Ok(worker)
    }

    /// Its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it said when it was ready.
    #[must_use]
    pub fn ready(&self) -> Ready {
        self.ready
    }

    /// Has it do what must be done before a block in which the culprit works once, and waits for that.
    ///
    /// # Errors
    ///
    /// If the worker has gone, or could not; in the kernel's words.
    pub fn prepare(&mut self) -> io::Result<()> {
        match self.ask(&Order::Prepare)? {
            Answer::Prepared => Ok(()),
            Answer::Ready(_) | Answer::Done(_) => Err(unasked()),
            Answer::Failed(why) => Err(io::Error::other(why)),
        }
    }

    /// Begins a block.
    ///
    /// # Errors
    ///
    /// If the worker has gone.
    pub fn begin(&mut self, block: Block) -> io::Result<()> {
        send(&mut self.orders, &Order::Block(block)).map_err(|err| self.gone(&err))
    }

    /// Waits for its end.
    ///
    /// # Errors
    ///
    /// If the worker has gone, or the culprit's operation failed; in the kernel's words.
    pub fn end(&mut self) -> io::Result<Raw> {
        match self.answer()? {
            Answer::Done(done) => self.stamps(&done),
            Answer::Ready(_) | Answer::Prepared => Err(unasked()),
            Answer::Failed(why) => Err(io::Error::other(why)),
        }
    }

    fn stamps(&mut self, done: &Done) -> io::Result<Raw> {
        let gaps = receive_stamps(&mut self.answers, done.gaps)?;
        let ops = receive_stamps(&mut self.answers, done.ops)?;
        Ok(Raw::new(done, &gaps, &ops))
    }

    fn ask(&mut self, order: &Order) -> io::Result<Answer> {
        send(&mut self.orders, order).map_err(|err| self.gone(&err))?;
        self.orders.flush()?;
        self.answer()
    }

    fn answer(&mut self) -> io::Result<Answer> {
        self.wait()?;
        match receive(&mut self.answers) {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => Err(self.gone(&io::ErrorKind::UnexpectedEof.into())),
            Err(err) => Err(err),
        }
    }

    /// Until there is something to read, which the end of a worker is too.
    fn wait(&self) -> io::Result<()> {
        while self.answers.buffer().is_empty() {
            if (self.stop)() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let mut fds = [PollFd::new(self.answers.get_ref(), PollFlags::IN)];
            match poll(&mut fds, Some(&NAP)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => break,
                Err(err) => return Err(err.into()),
            }
        }
        Ok(())
    }

    /// How it went, if it went.
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
        // it may have ended already, which is all that is wanted
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
