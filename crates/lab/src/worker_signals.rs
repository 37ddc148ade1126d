//! The signals that a worker of the lab obeys.

use std::io;

use rustix::process::{Signal, set_parent_process_death_signal};

/// From now on this process ends with its parent and by alarm(2), and not by Ctrl-C.
///
/// # Errors
///
/// The kernel's.
pub(crate) fn set_worker_signals() -> io::Result<()> {
    // The worker ends with the lab even if that is killed: a block would end by itself, but prepared memory may be gigabytes.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // Ctrl-C goes to every process of the terminal, and the lab decides which block is the last.
    // SAFETY: to ignore a signal runs no code of ours.
    unsafe { libc::signal(libc::SIGINT, libc::SIG_IGN) };
    // The process that started quell may have it ignored, which exec keeps.
    // SAFETY: the default action runs no code of ours.
    unsafe { libc::signal(libc::SIGALRM, libc::SIG_DFL) };
    Ok(())
}
