//! A command that runs: waited for, interrupted, stopped.

use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::ended::{Ended, Status, Usage};
use super::{Reader, Whose, early_end, signals, tree};
use crate::prove::failed::Interrupted;

/// How long a command may take to end after quell was asked to stop.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long it may take before that is said.
const SILENCE: Duration = Duration::from_secs(1);
/// How long SIGTERM has before SIGKILL follows.
const GRACE: Duration = Duration::from_secs(2);
/// Signals closer together than this are one request: timeout(1) signals its child and its group.
const SAME: Duration = Duration::from_millis(200);
/// How long SIGKILL has, which only a process in uninterruptible sleep needs.
const LAST: Duration = Duration::from_secs(10);
/// How often quell looks whether descendants that are not its children have ended.
const LOOK: Duration = Duration::from_millis(20);

/// A command that was released.
pub(crate) struct Running {
    pid: u32,
    /// Readable when it has ended.
    fd: OwnedFd,
    /// When it started, for the kernel: clock ticks after boot.
    since: u64,
    started: Instant,
    reader: Option<Reader>,
    whose: Whose,
    ended: Option<Ended>,
    /// Signals to quell that this command has been asked about.
    seen: u32,
    asked: Option<Instant>,
    /// Whether the user knows that it is waited for.
    said: bool,
}

/// Processes, for a message.
fn names(of: &[tree::Process]) -> String {
    let list: Vec<_> = of
        .iter()
        .map(|p| format!("{} ({})", p.comm, p.pid))
        .collect();
    list.join(", ")
}

impl Running {
    /// The pid of the command itself.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Of a child that is about to be released.
    pub(super) fn new(pid: u32, reader: Option<Reader>, whose: Whose) -> anyhow::Result<Self> {
        let raw = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let raw = raw.context("starting the command: no pid")?;
        let fd = pidfd_open(raw, PidfdFlags::empty())
            .with_context(|| format!("watching process {pid} (pidfd_open)"))?;
        // One that came before this command was there is not for it.
        let _ = signals::take_unshared();
        Ok(Self {
            pid,
            fd,
            since: tree::start_of(pid).unwrap_or(0),
            started: Instant::now(),
            reader,
            whose,
            ended: None,
            seen: signals::count(),
            asked: None,
            said: false,
        })
    }

    /// How it ended, if it has. Doesn't wait.
    pub(crate) fn try_wait(&mut self) -> anyhow::Result<Option<Ended>> {
        self.answer_signals()?;
        self.reap(libc::WNOHANG)?;
        Ok(self.ended)
    }

    /// The signal by which quell has to end and leave the command to itself, if it is the user's.
    pub(crate) fn left(&self) -> Option<i32> {
        signals::leaving().filter(|_| self.whose == Whose::Users && self.ended.is_none())
    }

    /// Whether it has not ended yet, as far as is known.
    pub(crate) fn runs(&self) -> bool {
        self.ended.is_none()
    }

    /// Waits until it has ended, or the time is over, or quell has to leave it. Signals are answered meanwhile.
    pub(crate) fn wait_timeout(&mut self, time: Duration) -> anyhow::Result<Option<Ended>> {
        let end = Instant::now().checked_add(time);
        loop {
            if let Some(ended) = self.try_wait()? {
                return Ok(Some(ended));
            }
            if self.left().is_some() {
                return Ok(None);
            }
            let now = Instant::now();
            let left = end.map_or(time, |end| end.saturating_duration_since(now));
            if left.is_zero() {
                return Ok(None);
            }
            let next = if self.said { PATIENCE } else { SILENCE };
            let is_patient = self.whose == Whose::Users && self.said;
            let patience = self
                .asked
                .filter(|_| !is_patient)
                .map(|at| (at + next).saturating_duration_since(now));
            // Orphans end unseen, and are reaped now and then.
            let nap = left
                .min(Duration::from_secs(1))
                .min(patience.unwrap_or(left));
            signals::poll(Some(self.fd.as_fd()), nap)?;
        }
    }

    /// Waits until it has ended. [`Interrupted`] where quell has to leave it.
    pub(crate) fn wait(&mut self) -> anyhow::Result<Ended> {
        loop {
            if let Some(ended) = self.wait_timeout(Duration::from_secs(3600))? {
                return Ok(ended);
            }
            if let Some(signal) = self.left() {
                return Err(Interrupted(signal).into());
            }
        }
    }

    /// The processes that the command has made and that are still alive, with their names.
    pub(crate) fn leftovers(&self) -> Vec<(u32, String)> {
        tree::reap_orphans();
        let all = tree::descendants(self.pid, self.since);
        // The watcher of a command that was started by `quell run` ends with it, at once.
        let all = all.into_iter().filter(|p| p.comm != early_end::NAME);
        all.map(|p| (p.pid, p.comm)).collect()
    }

    /// What it has written so far, the last 8 MiB of it; all of it once it has ended. Nothing
    /// unless the output is captured.
    pub(crate) fn output(&self) -> Vec<u8> {
        match &self.reader {
            Some(Reader::Here(capture)) => capture.bytes(),
            _ => Vec::new(),
        }
    }

    /// Has what it has written printed, and from now on all that it writes, where that was kept for it.
    pub(crate) fn print_output(&mut self) {
        self.reader
            .take_if(|reader| matches!(reader, Reader::Beside { .. }));
    }

    /// Stops it and all its descendants: SIGTERM, 2 seconds, SIGKILL. Also what it left behind, if
    /// it has ended.
    pub(crate) fn stop(&mut self) -> anyhow::Result<Ended> {
        self.stop_within(GRACE)
    }

    /// As [`Running::stop`], with another time between SIGTERM and SIGKILL.
    pub(crate) fn stop_within(&mut self, grace: Duration) -> anyhow::Result<Ended> {
        self.signal_all(Signal::TERM);
        if !self.all_gone(grace)? {
            let end = Instant::now() + LAST;
            // Again and again: what forks faster than it is found must lose.
            while Instant::now() < end {
                self.signal_all(Signal::KILL);
                tree::kill_orphans(self.since, LOOK);
                if self.all_gone(LOOK)? {
                    break;
                }
            }
        }
        let left = tree::descendants(self.pid, self.since);
        match self.ended {
            Some(_) if !left.is_empty() => bail!(
                "stopping process {}: {} that it started do not end, even by SIGKILL: {}",
                self.pid,
                left.len(),
                names(&left)
            ),
            Some(ended) => Ok(ended),
            None => bail!(
                "stopping process {}: it does not end, even by SIGKILL",
                self.pid
            ),
        }
    }

    fn signal(&self, signal: Signal) {
        if self.ended.is_none() {
            // It may have ended: a descriptor can't mean anybody else.
            let _ = pidfd_send_signal(&self.fd, signal);
        }
    }

    fn signal_all(&self, signal: Signal) {
        // Listed first: the children of a process that ends change parents.
        let others = tree::descendants(self.pid, self.since);
        self.signal(signal);
        others.iter().for_each(|p| tree::signal(p, signal));
    }

    /// Waits until the command and all its descendants have ended, or the time is over.
    fn all_gone(&mut self, time: Duration) -> anyhow::Result<bool> {
        let end = Instant::now() + time;
        loop {
            self.reap(libc::WNOHANG)?;
            tree::reap_orphans();
            if self.ended.is_some() && tree::descendants(self.pid, self.since).is_empty() {
                // Those that ended just now.
                tree::reap_orphans();
                return Ok(true);
            }
            if Instant::now() >= end {
                return Ok(false);
            }
            signals::poll(self.ended.is_none().then(|| self.fd.as_fd()), LOOK)?;
        }
    }

    /// Hands on what was sent to quell alone, and stops a command of quell's when patience ends.
    fn answer_signals(&mut self) -> anyhow::Result<()> {
        tree::reap_orphans();
        if self.ended.is_some() {
            return Ok(());
        }
        let count = signals::count();
        let mut again = false;
        if count > self.seen {
            self.seen = count;
            if self.left().is_some() {
                return Ok(());
            }
            if let Some(signal) = signals::take_unshared().and_then(Signal::from_named_raw) {
                self.signal(signal);
            }
            again = self.asked.is_some_and(|at| at.elapsed() > SAME);
            self.asked.get_or_insert_with(Instant::now);
        }
        let silent = !self.said && self.asked.is_some_and(|at| at.elapsed() >= SILENCE);
        if self.whose == Whose::Users {
            if silent {
                self.said = true;
                say!(
                    "quell: waiting for process {} to end; SIGTERM ends quell alone",
                    self.pid
                );
            }
        } else if again || self.asked.is_some_and(|at| at.elapsed() >= PATIENCE) {
            self.stop()?;
        } else if silent {
            self.said = true;
            say!(
                "quell: waiting for process {} to end, {} s at most; another signal stops it now",
                self.pid,
                PATIENCE.as_secs()
            );
        }
        Ok(())
    }

    fn reap(&mut self, flags: i32) -> anyhow::Result<()> {
        if self.ended.is_some() {
            return Ok(());
        }
        let pid = i32::try_from(self.pid).unwrap_or(-1);
        let mut word = 0;
        // SAFETY: wait4(2) of our own child, with structs on the stack to fill in.
        let (got, usage) = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            (
                libc::wait4(pid, &raw mut word, flags, &raw mut usage),
                usage,
            )
        };
        if got == -1 {
            let err = std::io::Error::last_os_error();
            if err.kind() == std::io::ErrorKind::Interrupted {
                return Ok(());
            }
            return Err(err).with_context(|| format!("waiting for process {pid}"));
        }
        if got == pid {
            self.ended = Some(Ended {
                status: Status::from_wait(word),
                usage: Usage::new(&usage, self.started.elapsed()),
            });
            tree::awaited(self.pid);
            if let Some(Reader::Here(capture)) = &mut self.reader {
                capture.finish();
            }
        }
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.whose == Whose::Quells {
            // Where an error left it alone; and what it left behind.
            if (self.ended.is_none() || !self.leftovers().is_empty())
                && let Err(err) = self.stop()
            {
                say!("quell: {err:#}");
            }
        } else if self.ended.is_none()
            && self.left().is_none()
            && let Ok(ended) = self.wait()
        {
            // Where an error or a panic gives quell another status than the command's.
            say!("quell: process {} {}", self.pid, ended.status);
        }
    }
}
