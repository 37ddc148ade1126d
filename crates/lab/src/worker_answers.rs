//! Reads the answers of a worker with a deadline: no read waits without a bound, and none goes on after Ctrl-C.

use std::io::{self, BufReader, Read};
use std::process::ChildStdout;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Says whether somebody wants the whole to end. It is asked while a read waits for a worker, which may take seconds to prepare
/// or give back gigabytes.
pub type StopRequested = fn() -> bool;

/// The time between two calls of it.
const STOP_CHECK_INTERVAL: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};

/// The answers of one worker.
#[derive(Debug)]
pub(crate) struct WorkerAnswers(BufReader<BoundedOutput>);

/// The output of a worker, with a deadline.
#[derive(Debug)]
pub(crate) struct BoundedOutput {
    from: ChildStdout,
    stop: StopRequested,
    until: Instant,
}

impl WorkerAnswers {
    pub(crate) fn new(from: ChildStdout, stop: StopRequested) -> Self {
        Self(BufReader::new(BoundedOutput {
            from,
            stop,
            until: Instant::now(),
        }))
    }

    /// Reads the answer to the latest order by `receive`; errors call that order `doing`.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::Interrupted`] where somebody wants it to end, [`io::ErrorKind::TimedOut`] after that time; and the errors
    /// of `receive`.
    pub(crate) fn receive_within<T>(
        &mut self,
        time: Duration,
        doing: &str,
        receive: impl FnOnce(&mut BufReader<BoundedOutput>) -> io::Result<T>,
    ) -> io::Result<T> {
        let now = Instant::now();
        self.0.get_mut().until = now.checked_add(time).unwrap_or(now);
        receive(&mut self.0).map_err(|err| match err.kind() {
            // std's readers repeat an interrupted read, so the interruption comes here as another kind of error.
            io::ErrorKind::ConnectionAborted => io::ErrorKind::Interrupted.into(),
            io::ErrorKind::TimedOut => io::Error::new(
                io::ErrorKind::TimedOut,
                format!("{doing} hangs: nothing came of it in {} s", time.as_secs()),
            ),
            _ => err,
        })
    }
}

impl Read for BoundedOutput {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        loop {
            if (self.stop)() {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            let mut fds = [PollFd::new(&self.from, PollFlags::IN)];
            match poll(&mut fds, Some(&STOP_CHECK_INTERVAL)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                // The end of a worker can be read too.
                Ok(_) => return self.from.read(to),
                Err(err) => return Err(err.into()),
            }
            if Instant::now() > self.until {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufRead as _;
    use std::process::{Child, Command, Stdio};

    use super::*;

    fn worker(script: &str, stop: StopRequested) -> (Child, WorkerAnswers) {
        let mut child = Command::new("sh")
            .args(["-c", script])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let from = child.stdout.take().unwrap();
        (child, WorkerAnswers::new(from, stop))
    }

    fn line(from: &mut BufReader<BoundedOutput>) -> io::Result<String> {
        let mut line = String::new();
        from.read_line(&mut line).map(|_| line)
    }

    /// Check that what a worker says is read, that one that says nothing is not waited for beyond the time and is told
    /// with what it was at, and that somebody who wants it to end is heard at once.
    #[test]
    fn nothing_is_waited_for_without_end() {
        let (mut child, mut answers) = worker("echo one; exec sleep 3600", || false);
        let said = answers.receive_within(Duration::from_secs(600), "to speak", line);
        assert_eq!(said.unwrap(), "one\n");
        let began = Instant::now();
        let hung = answers.receive_within(Duration::from_secs(1), "an operation", line);
        let hung = hung.unwrap_err();
        assert_eq!(hung.kind(), io::ErrorKind::TimedOut);
        assert!(hung.to_string().contains("an operation hangs"), "{hung}");
        child.kill().unwrap();
        child.wait().unwrap();
        let (mut child, mut answers) = worker("exec sleep 3600", || true);
        let ended = answers.receive_within(Duration::from_secs(600), "to speak", line);
        assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::Interrupted);
        assert!(began.elapsed() < Duration::from_secs(300));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
