//! Which signals a worker of the lab heeds.

use std::io;

use rustix::process::{Signal, set_parent_process_death_signal};

/// From now on this process ends with its parent and by alarm(2), and not by Ctrl-C.
///
/// # Errors
///
/// The kernel's.
pub(crate) fn of_a_worker() -> io::Result<()> {
    // Should the lab be killed: a block would end by itself, but what is prepared may hold gigabytes.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // Ctrl-C goes to every process of the terminal, and it is the lab that says when a block is the last.
    // SAFETY: to ignore a signal runs no code of ours.
    unsafe { libc::signal(libc::SIGINT, libc::SIG_IGN) };
    // Who started quell may have it ignored, which exec keeps.
    // SAFETY: the default action runs no code of ours.
    unsafe { libc::signal(libc::SIGALRM, libc::SIG_DFL) };
    Ok(())
}
