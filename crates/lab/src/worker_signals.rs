//! The signals that a worker of the lab obeys, and the alarm that ends one whose order hangs.

use std::io::{self, Write};
use std::time::Duration;

use rustix::process::{Signal, set_parent_process_death_signal};
use serde::Serialize;

use crate::protocol::send_line;

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

/// Ends this process after that time, whatever call it is in, by a signal that nobody handles (alarm(2)); never, if the time is
/// zero.
pub(crate) fn set_alarm(time: Duration) {
    // SAFETY: a number only.
    unsafe { libc::alarm(u32::try_from(time.as_secs()).unwrap_or(u32::MAX)) };
}

/// Takes the alarm off, and answers the order: by its result, or in words why there is none.
///
/// # Errors
///
/// If the lab has gone.
pub(crate) fn send_answer(
    answers: &mut impl Write,
    done: io::Result<impl Serialize>,
) -> io::Result<()> {
    set_alarm(Duration::ZERO);
    send_line(answers, &done.map_err(|err| err.to_string()))
}
