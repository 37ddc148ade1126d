//! The output of a user's command while quell has the screen: kept by a process beside quell, which prints it when quell
//! is gone, however that ended, and passes on the later output.
//!
//! ```text
//! command ──output──> keeper ──when quell is gone──> quell's standard output
//!                       ↑ lives: a pipe whose other end only quell has
//! ```

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::Duration;

use anyhow::Context as _;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};

use super::capture::OutputTail;
use super::{early_end, tree};

/// The keeper's name in lists of processes (15 bytes at most, PR_SET_NAME(2const)).
const KEEPER_NAME: &str = "quell-output";
/// How long quell waits until the kept output is printed, because a terminal may be stopped by Ctrl-S.
const MAX_PRINT_WAIT: Duration = Duration::from_secs(2);

/// A keeper, from quell's side.
pub(super) struct OutputKeeper {
    lives: Option<OwnedFd>,
    /// Closed by the keeper when it has printed what it kept.
    printed: OwnedFd,
}

impl OutputKeeper {
    /// Starts a keeper of the output that is written to the descriptor.
    pub(super) fn new() -> anyhow::Result<(Self, OwnedFd)> {
        let pipe =
            || pipe_with(PipeFlags::CLOEXEC).context("making a pipe for the command's output");
        let ((output, write), (lives, lives_here), (printed, printed_there)) =
            (pipe()?, pipe()?, pipe()?);
        // SAFETY: the child has its own copy of all that it uses, and the C libraries make allocation work after a fork.
        match unsafe { libc::fork() } {
            0 => {
                drop((write, lives_here, printed));
                outlive_quell();
                keep_output(&output, &lives, printed_there);
                // SAFETY: _exit(2) runs nothing of quell's.
                unsafe { libc::_exit(0) }
            }
            -1 => Err(std::io::Error::last_os_error())
                .context("starting a process for the command's output (fork)"),
            pid => {
                // No orphan of the command; nobody waits for it, for it ends after quell.
                tree::await_child(u32::try_from(pid).unwrap_or(0));
                let kept = Self {
                    lives: Some(lives_here),
                    printed,
                };
                Ok((kept, write))
            }
        }
    }
}

impl Drop for OutputKeeper {
    fn drop(&mut self) {
        drop(self.lives.take());
        let timeout = Timespec::try_from(MAX_PRINT_WAIT).ok();
        let mut fds = [PollFd::new(&self.printed, PollFlags::IN)];
        // The keeper prints the rest later.
        let _ = poll(&mut fds, timeout.as_ref());
    }
}

/// Lets no signal that is for the command or for quell end this process, for then the command's next word would end it;
/// and lets it write where only the foreground may.
fn outlive_quell() {
    early_end::set_name(KEEPER_NAME);
    let signals = [
        libc::SIGINT,
        libc::SIGQUIT,
        libc::SIGTERM,
        libc::SIGHUP,
        libc::SIGTTOU,
        libc::SIGTSTP,
    ];
    for signal in signals {
        // SAFETY: signal(2) of this process alone.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    for fd in [0, 2] {
        // SAFETY: nothing here reads or says anything; whoever reads quell's messages is not to wait for this process.
        unsafe { libc::close(fd) };
    }
}

/// Keeps the end of the output until quell is gone; then prints it, and all later output.
fn keep_output(output: &OwnedFd, lives: &OwnedFd, printed: OwnedFd) {
    // SAFETY: nobody closes standard output in this process.
    let stdout = unsafe { BorrowedFd::borrow_raw(1) };
    let mut tail = OutputTail::default();
    let mut buffer = vec![0; 256 << 10];
    let (mut is_open, mut is_gone) = (true, false);
    while is_open && !is_gone {
        let mut fds = [
            PollFd::new(output, PollFlags::IN),
            PollFd::new(lives, PollFlags::IN),
        ];
        if poll(&mut fds, None) == Err(rustix::io::Errno::INTR) {
            continue;
        }
        let [comes, gone] = fds.map(|fd| !fd.revents().is_empty());
        is_gone = gone;
        if comes {
            match rustix::io::read(output.as_fd(), &mut buffer) {
                Ok(0) => is_open = false,
                Ok(n) => tail.push(&buffer[..n]),
                Err(_) => {}
            }
        }
    }
    if !is_gone {
        let _ = rustix::io::retry_on_intr(|| rustix::io::read(lives.as_fd(), &mut [0; 1]));
    }
    // An output that can't be written to is no reason to let the command wait, or to end it.
    print_bytes(stdout, &tail.bytes());
    drop((printed, tail));
    while is_open {
        match rustix::io::retry_on_intr(|| rustix::io::read(output.as_fd(), &mut buffer)) {
            Ok(0) | Err(_) => is_open = false,
            Ok(n) => print_bytes(stdout, &buffer[..n]),
        }
    }
}

fn print_bytes(to: BorrowedFd<'_>, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        match rustix::io::retry_on_intr(|| rustix::io::write(to, bytes)) {
            Ok(n) => bytes = &bytes[n..],
            Err(_) => return,
        }
    }
}
