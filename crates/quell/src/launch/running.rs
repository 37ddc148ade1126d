//! A command that runs: waited for, interrupted, stopped.

use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::ended::{Ended, Status, Usage};
use super::{Reader, Whose, early_end, signals, tree};
use crate::prove::failed::Interrupted;

/// How long a command may take to end after quell was asked to stop.
const MAX_STOP_WAIT: Duration = Duration::from_secs(5);
/// How long quell waits for that before it says so.
const SILENT_WAIT: Duration = Duration::from_secs(1);
/// How long SIGTERM has before SIGKILL follows.
const TERM_GRACE: Duration = Duration::from_secs(2);
/// Signals closer together than this are one request: timeout(1) signals its child and its group.
const SAME_REQUEST_TIME: Duration = Duration::from_millis(200);
/// How long SIGKILL has, which only a process in uninterruptible sleep needs.
const MAX_KILL_WAIT: Duration = Duration::from_secs(10);
/// How often quell looks whether descendants that are not its children have ended.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

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
fn process_list(of: &[tree::Process]) -> String {
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

    /// The command of a child that is about to be released.
    pub(super) fn new(pid: u32, reader: Option<Reader>, whose: Whose) -> anyhow::Result<Self> {
        let raw = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let raw = raw.context("starting the command: no pid")?;
        let fd = pidfd_open(raw, PidfdFlags::empty())
            .with_context(|| format!("watching process {pid} (pidfd_open)"))?;
        // A signal that came before this command was there is not for it.
        let _ = signals::take_unshared();
        Ok(Self {
            pid,
            fd,
            since: tree::start_of(pid).unwrap_or(0),
            started: Instant::now(),
            reader,
            whose,
            ended: None,
            seen: signals::signal_count(),
            asked: None,
            said: false,
        })
    }

    /// How it ended, if it has. Doesn't wait.
    pub(crate) fn try_wait(&mut self) -> anyhow::Result<Option<Ended>> {
        self.answer_signals()?;
        self.reap_command(libc::WNOHANG)?;
        Ok(self.ended)
    }

    /// The signal by which quell has to end and leave the command to itself, if it is the user's.
    pub(crate) fn leave_signal(&self) -> Option<i32> {
        signals::leave_signal().filter(|_| self.whose == Whose::Users && self.ended.is_none())
    }

    /// Whether it has not ended yet, as far as is known.
    pub(crate) fn is_running(&self) -> bool {
        self.ended.is_none()
    }

    /// Waits until it has ended, or the time is over, or quell has to leave it. Signals are answered meanwhile.
    pub(crate) fn wait_timeout(&mut self, time: Duration) -> anyhow::Result<Option<Ended>> {
        let end = Instant::now().checked_add(time);
        loop {
            if let Some(ended) = self.try_wait()? {
                return Ok(Some(ended));
            }
            if self.leave_signal().is_some() {
                return Ok(None);
            }
            let now = Instant::now();
            let left = end.map_or(time, |end| end.saturating_duration_since(now));
            if left.is_zero() {
                return Ok(None);
            }
            let next = if self.said {
                MAX_STOP_WAIT
            } else {
                SILENT_WAIT
            };
            let is_patient = self.whose == Whose::Users && self.said;
            let patience = self
                .asked
                .filter(|_| !is_patient)
                .map(|at| (at + next).saturating_duration_since(now));
            // Orphans end unseen, and are reaped now and then.
            let nap = left
                .min(Duration::from_secs(1))
                .min(patience.unwrap_or(left));
            signals::poll_until_signal(Some(self.fd.as_fd()), nap)?;
        }
    }

    /// Waits until it has ended. [`Interrupted`] where quell has to leave it.
    pub(crate) fn wait(&mut self) -> anyhow::Result<Ended> {
        loop {
            if let Some(ended) = self.wait_timeout(Duration::from_secs(3600))? {
                return Ok(ended);
            }
            if let Some(signal) = self.leave_signal() {
                return Err(Interrupted(signal).into());
            }
        }
    }

    /// The processes that the command has made and that are still alive, with their names.
    pub(crate) fn leftovers(&self) -> Vec<(u32, String)> {
        tree::reap_orphans();
        let all = tree::descendants(self.pid, self.since);
        // The watcher of a command that was started by `quell run` ends with it, at once.
        let all = all
            .into_iter()
            .filter(|p| p.comm != early_end::WATCHER_NAME);
        all.map(|p| (p.pid, p.comm)).collect()
    }

    /// The output so far, or the last 8 MiB of it; all of it once the command has ended. It is empty
    /// unless the output is captured.
    pub(crate) fn output(&self) -> Vec<u8> {
        match &self.reader {
            Some(Reader::Here(capture)) => capture.bytes(),
            _ => Vec::new(),
        }
    }

    /// Has the kept output printed, and from now on all output at once, where output was kept.
    pub(crate) fn print_output(&mut self) {
        self.reader
            .take_if(|reader| matches!(reader, Reader::Beside { .. }));
    }

    /// Stops it and all its descendants: SIGTERM, 2 seconds, SIGKILL. Stops also the processes that it left
    /// behind, if it has ended.
    pub(crate) fn stop(&mut self) -> anyhow::Result<Ended> {
        self.stop_within(TERM_GRACE)
    }

    /// As [`Running::stop`], with another time between SIGTERM and SIGKILL.
    pub(crate) fn stop_within(&mut self, grace: Duration) -> anyhow::Result<Ended> {
        self.signal_all(Signal::TERM);
        if !self.all_gone(grace)? {
            let end = Instant::now() + MAX_KILL_WAIT;
            // This is repeated, so that processes that fork faster than they are found lose in the end.
            while Instant::now() < end {
                self.signal_all(Signal::KILL);
                tree::kill_orphans(self.since, LOOK_INTERVAL);
                if self.all_gone(LOOK_INTERVAL)? {
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
                process_list(&left)
            ),
            Some(ended) => Ok(ended),
            None => bail!(
                "stopping process {}: it does not end, even by SIGKILL",
                self.pid
            ),
        }
    }

    fn signal_command(&self, signal: Signal) {
        if self.ended.is_none() {
            // It may have ended, but the descriptor can't mean another process.
            let _ = pidfd_send_signal(&self.fd, signal);
        }
    }

    fn signal_all(&self, signal: Signal) {
        // Listed first: the children of a process that ends change parents.
        let others = tree::descendants(self.pid, self.since);
        self.signal_command(signal);
        others.iter().for_each(|p| tree::signal_process(p, signal));
    }

    /// Waits until the command and all its descendants have ended, or the time is over.
    fn all_gone(&mut self, time: Duration) -> anyhow::Result<bool> {
        let end = Instant::now() + time;
        loop {
            self.reap_command(libc::WNOHANG)?;
            tree::reap_orphans();
            if self.ended.is_some() && tree::descendants(self.pid, self.since).is_empty() {
                // Those that ended just now.
                tree::reap_orphans();
                return Ok(true);
            }
            if Instant::now() >= end {
                return Ok(false);
            }
            signals::poll_until_signal(
                self.ended.is_none().then(|| self.fd.as_fd()),
                LOOK_INTERVAL,
            )?;
        }
    }

    /// Hands on signals that were sent to quell alone, and stops a command of quell's when it takes too long to end.
    fn answer_signals(&mut self) -> anyhow::Result<()> {
        tree::reap_orphans();
        if self.ended.is_some() {
            return Ok(());
        }
        let count = signals::signal_count();
        let mut again = false;
        if count > self.seen {
            self.seen = count;
            if self.leave_signal().is_some() {
                return Ok(());
            }
            if let Some(signal) = signals::take_unshared().and_then(Signal::from_named_raw) {
                self.signal_command(signal);
            }
            again = self
                .asked
                .is_some_and(|at| at.elapsed() > SAME_REQUEST_TIME);
            self.asked.get_or_insert_with(Instant::now);
        }
        let silent = !self.said && self.asked.is_some_and(|at| at.elapsed() >= SILENT_WAIT);
        if self.whose == Whose::Users {
            if silent {
                self.said = true;
                say!(
                    "quell: waiting for process {} to end; SIGTERM ends quell alone",
                    self.pid
                );
            }
        } else if again || self.asked.is_some_and(|at| at.elapsed() >= MAX_STOP_WAIT) {
            self.stop()?;
        } else if silent {
            self.said = true;
            say!(
                "quell: waiting for process {} to end, {} s at most; another signal stops it now",
                self.pid,
                MAX_STOP_WAIT.as_secs()
            );
        }
        Ok(())
    }

    fn reap_command(&mut self, flags: i32) -> anyhow::Result<()> {
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
            tree::forget_child(self.pid);
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
            // An error may have left it alone, and it may have left processes behind.
            if (self.ended.is_none() || !self.leftovers().is_empty())
                && let Err(err) = self.stop()
            {
                say!("quell: {err:#}");
            }
        } else if self.ended.is_none()
            && self.leave_signal().is_none()
            && let Ok(ended) = self.wait()
        {
            // Where an error or a panic gives quell another status than the command's.
            say!("quell: process {} {}", self.pid, ended.status);
        }
    }
}
