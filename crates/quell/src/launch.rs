//! Starts commands, held back until whoever measures them is ready, and never leaves one behind.
//!
//! ```text
//! hold_command ──> Held ──release──> Running ──wait──> Ended
//! ```
//!
//! A held command has a pid but has not run one instruction of its own, so that a probe can be told
//! its pid first. Whoever waits on a [`Running`] also answers signals: Ctrl-C at the terminal reaches
//! the command by itself, and SIGINT that is sent to quell alone is handed on. The rest depends on
//! whose the command is ([`Whose`]):
//!
//! - One of the user's runs on whatever becomes of quell. SIGTERM and SIGHUP end quell alone; a
//!   [`Running`] that is dropped, as after an error or by a panic, waits for it.
//! - One that quell runs to measure it ends with quell: a second signal, or 5 seconds, stop it with
//!   all its descendants, and so does dropping it. Where quell is killed, it is too.

mod capture;
mod child;
mod early_end;
mod ended;
mod kept;
mod lean;
mod running;
mod setup;
pub(crate) mod signals;
mod tree;

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::Path;

use anyhow::{Context as _, bail};
use quell_remedy::Start;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::pipe::{PipeFlags, pipe_with};

pub(crate) use ended::{Ended, Status, Usage};
pub(crate) use running::Running;
pub(crate) use setup::Setup;

use crate::cmd::usage;
use capture::Capture;
use child::{Descriptors, Failed, Prepared};
use kept::OutputKeeper;

/// Where a command's output goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// To quell's own, and its input comes from there.
    Inherit,
    /// Both streams together to [`Running::output`]. Its input is empty, or, where quell's own is a
    /// file, that file from its beginning, so that each of several runs reads the same.
    Capture,
    /// Both streams together to quell's own standard output, but only when quell has ended or
    /// [`Running::print_output`] asks for it, and the end of what came until then. Its input is as
    /// for `Capture`.
    Keep,
    /// Both streams to quell's own standard error, where quell's standard output is for data. Its
    /// input is quell's.
    ToStderr,
}

/// Whose command it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// The user's, who runs it under quell.
    Users,
    /// One of the runs that quell makes by itself, to compare them.
    Quells,
}

/// A command to start.
pub(crate) struct Spec<'a> {
    /// The program, looked for in PATH, and its arguments.
    pub(crate) argv: &'a [OsString],
    /// The changes to quell's own environment.
    pub(crate) setup: &'a Setup,
    /// Where its output goes.
    pub(crate) output: Output,
    /// Who decides about its end.
    pub(crate) whose: Whose,
}

/// Who reads a command's output.
enum Reader {
    /// quell.
    Here(Capture),
    /// A process beside it.
    Beside { _kept: OutputKeeper },
}

/// A process that will become the command when it is released.
pub(crate) struct Held {
    pid: u32,
    name: OsString,
    go: Option<OwnedFd>,
    failed: OwnedFd,
    reader: Option<Reader>,
    whose: Whose,
    /// The settings that are applied to it first, for messages.
    starts: Vec<Start>,
}

fn make_pipe() -> anyhow::Result<(OwnedFd, OwnedFd)> {
    pipe_with(PipeFlags::CLOEXEC).context("making a pipe to the command")
}

/// Opens the descriptors that replace quell's own input, output and error for the command.
fn open_stdio(output: Output) -> anyhow::Result<(Option<Reader>, [Option<OwnedFd>; 3])> {
    let open = |path: &str, flags| {
        rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty())
            .with_context(|| format!("opening {path} for the command"))
    };
    let input = || {
        let own = rustix::fs::fstat(std::io::stdin());
        let file = own.is_ok_and(|s| FileType::from_raw_mode(s.st_mode) == FileType::RegularFile);
        // Opened anew, it has an offset of its own (proc_pid_fd(5)).
        let path = if file { "/proc/self/fd/0" } else { "/dev/null" };
        open(path, OFlags::RDONLY)
    };
    Ok(match output {
        Output::Inherit => (None, [None, None, None]),
        Output::ToStderr => {
            let own = std::io::stderr().as_fd().try_clone_to_owned();
            let own = own.context("sharing standard error")?;
            (None, [None, Some(own), None])
        }
        Output::Capture | Output::Keep => {
            let (reader, write) = if output == Output::Capture {
                let (capture, write) = Capture::new()?;
                (Reader::Here(capture), write)
            } else {
                let (kept, write) = OutputKeeper::new()?;
                (Reader::Beside { _kept: kept }, write)
            };
            let again = write.try_clone().context("sharing a pipe")?;
            (Some(reader), [Some(input()?), Some(write), Some(again)])
        }
    })
}

/// Makes the process of a command, which waits until it is released.
pub(crate) fn hold_command(spec: &Spec<'_>) -> anyhow::Result<Held> {
    signals::install_handlers()?;
    tree::adopt_orphans()?;
    let prepared = Prepared::new(spec.argv, spec.setup)?;
    // The reader beside quell is started first, because it must not have the pipes below as well.
    let (reader, stdio) = open_stdio(spec.output)?;
    let (go_read, go_write) = make_pipe()?;
    let (failed_read, failed_write) = make_pipe()?;
    let fds = Descriptors {
        go: go_read.as_raw_fd(),
        failed: failed_write.as_raw_fd(),
        stdio: [0, 1, 2].map(|n: usize| stdio[n].as_ref().map(|fd| fd.as_raw_fd())),
        other_end: go_write.as_raw_fd(),
        ends_with_quell: spec.whose == Whose::Quells,
    };
    lean::leave_buffers_out();
    // Until the child has its own answers to them, our handlers must not run in it.
    let pid = with_blocked(|| {
        // SAFETY: the child makes nothing but system calls, on memory that was laid out before.
        match unsafe { libc::fork() } {
            -1 => Err(std::io::Error::last_os_error()),
            // SAFETY: we are the child of fork(2), with the signals blocked.
            0 => unsafe { prepared.run_child(&fds) },
            pid => Ok(u32::try_from(pid).unwrap_or(0)),
        }
    })
    .context("starting a process for the command (fork)")?;
    tree::await_child(pid);
    Ok(Held {
        pid,
        name: spec.argv.first().cloned().unwrap_or_default(),
        go: Some(go_write),
        failed: failed_read,
        reader,
        whose: spec.whose,
        starts: spec.setup.starts.clone(),
    })
}

/// Runs `action` with INT, TERM and HUP blocked in this thread.
fn with_blocked<T>(action: impl FnOnce() -> T) -> T {
    // SAFETY: pthread_sigmask(3) with sets on the stack.
    unsafe {
        let mut asked: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut asked);
        for signal in signals::STOP_SIGNALS {
            libc::sigaddset(&raw mut asked, signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const asked, &raw mut before);
        let result = action();
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        result
    }
}

impl Held {
    /// The pid that the command will have.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Lets it become the command. If it can't, that is the error.
    pub(crate) fn release(mut self) -> anyhow::Result<Running> {
        // The signal may have come while the probe was loaded, and the command must not start after it.
        if let Some(signal) = signals::first_signal() {
            bail!(
                "{} came before '{}' was started",
                signals::signal_name(signal),
                self.name.display()
            );
        }
        let mut running = Running::new(self.pid, self.reader.take(), self.whose)?;
        if let Some(go) = self.go.take() {
            // A child that was killed meanwhile is reported by wait.
            let _ = rustix::io::write(&go, &[1]);
        }
        let mut failed = [0; size_of::<Failed>()];
        let got = rustix::io::retry_on_intr(|| rustix::io::read(&self.failed, &mut failed));
        if got == Ok(failed.len()) {
            running.wait()?;
            return Err(cannot_start(
                &self.name,
                &self.starts,
                Failed::from_bytes(failed),
            ));
        }
        Ok(running)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // A process that was released belongs to a Running.
        if self.go.take().is_some() {
            let Ok(pid) = i32::try_from(self.pid) else {
                return;
            };
            // SAFETY: waitpid(2) for our own child, which ends when its pipe is closed.
            unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
            tree::forget_child(self.pid);
        }
    }
}

/// Checks that there is such a command, before anything is made ready for it.
///
/// # Errors
///
/// Bad usage: there is none, or it may not be executed.
pub(crate) fn check_command(argv: &[OsString]) -> anyhow::Result<()> {
    let prepared = Prepared::new(argv, Setup::NONE)?;
    let name = argv.first().cloned().unwrap_or_default();
    prepared
        .find_executable()
        .map_err(|errno| cannot_start(&name, &[], Failed::of_exec(errno)))
}

/// Becomes the command: the process stays, quell is gone. Returns only if that can't be, and why. With advice, it is
/// said if the command soon ends by a fault of its own.
pub(crate) fn become_command(
    argv: &[OsString],
    setup: &Setup,
    advice: Option<String>,
) -> anyhow::Error {
    // The handlers are installed only to learn which signals were ignored, because the command is to inherit that.
    let prepared = match signals::install_handlers().and_then(|()| Prepared::new(argv, setup)) {
        Ok(prepared) => prepared,
        Err(err) => return err,
    };
    if let Some(advice) = advice {
        early_end::start_watcher(&advice);
    }
    // SAFETY: both are system calls only, which any process may make.
    let failed = unsafe {
        prepared.reset_signals();
        prepared.become_it()
    };
    cannot_start(
        &argv.first().cloned().unwrap_or_default(),
        &setup.starts,
        failed,
    )
}

/// Why a command did not start, with what helps.
fn cannot_start(name: &OsStr, starts: &[Start], failed: Failed) -> anyhow::Error {
    let shown = name.display();
    if let Some(start) = usize::try_from(failed.start)
        .ok()
        .and_then(|n| starts.get(n))
    {
        let err = std::io::Error::from_raw_os_error(failed.errno);
        let helps = match start {
            Start::Cpus(_) => "; is there such a CPU, and may this process use it?",
            Start::Numa(_) => "; is there such a node, and may this process use it?",
            Start::Ksm { .. } => "; it takes Linux 6.4 with CONFIG_KSM",
            Start::ThpNever | Start::TimerSlack { .. } => "",
        };
        return anyhow::anyhow!(
            "can't start {shown}: the plan's {start} was refused: {err}{helps}"
        );
    }
    let errno = failed.errno;
    let is_path = name.as_encoded_bytes().contains(&b'/');
    match errno {
        libc::ENOENT if is_path && Path::new(name).exists() => usage(format!(
            "can't start {shown}: what it needs to run, the interpreter in its first line or the dynamic linker, is not there"
        )),
        libc::ENOENT | libc::ENOTDIR if is_path => usage(format!("no such command: {shown}")),
        libc::ENOENT | libc::ENOTDIR => usage(format!(
            "no such command: {shown} is in no folder of PATH; is it installed, or meant as ./{shown}?"
        )),
        libc::EACCES => usage(format!(
            "can't start {shown}: permission denied; is it a program, and may this user execute it?"
        )),
        libc::ENOEXEC => usage(format!("can't start {shown}: it is no program")),
        errno => {
            let err = std::io::Error::from_raw_os_error(errno);
            anyhow::anyhow!("can't start {shown}: {err}")
        }
    }
}

#[cfg(test)]
#[path = "launch/tests.rs"]
pub(crate) mod tests;
