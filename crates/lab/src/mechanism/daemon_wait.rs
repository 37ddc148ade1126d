//! A wait for a kernel thread that does its work when it likes.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

/// The longest time that one may need to come round: khugepaged goes over the memory of others too.
const MAX_DAEMON_WAIT: Duration = Duration::from_secs(5);

/// Time between two looks: short against a daemon's pause, and long enough that the CPU is free for it.
const DAEMON_CHECK_INTERVAL: Duration = Duration::from_micros(500);

/// Waits until the work is done; `late` makes the error of so many seconds in which it was not.
pub(super) fn wait_for_daemon(
    mut is_done: impl FnMut() -> io::Result<bool>,
    late: fn(u64) -> String,
) -> io::Result<()> {
    let until = Instant::now() + MAX_DAEMON_WAIT;
    while !is_done()? {
        if Instant::now() > until {
            return Err(io::Error::other(late(MAX_DAEMON_WAIT.as_secs())));
        }
        thread::sleep(DAEMON_CHECK_INTERVAL);
    }
    Ok(())
}
