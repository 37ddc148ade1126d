//! Keeps the end of what a command writes, and never lets it wait.

use std::collections::VecDeque;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use anyhow::Context as _;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};

/// How much of the end is kept, bytes.
const KEPT: usize = 8 << 20;
/// Asked of the kernel for the pipe, so that a command rarely waits for quell.
const PIPE: usize = 1 << 20;

#[derive(Default)]
pub(super) struct Tail {
    bytes: VecDeque<u8>,
}

impl Tail {
    pub(super) fn push(&mut self, new: &[u8]) {
        let new = &new[new.len().saturating_sub(KEPT)..];
        let over = (self.bytes.len() + new.len()).saturating_sub(KEPT);
        self.bytes.drain(..over);
        self.bytes.extend(new);
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let (a, b) = self.bytes.as_slices();
        [a, b].concat()
    }
}

/// A pipe for a command's output, and the thread that reads it.
pub(super) struct Capture {
    tail: Arc<Mutex<Tail>>,
    stop: OwnedFd,
    reader: Option<JoinHandle<()>>,
}

impl Capture {
    /// The capture, and the descriptor to hand to the command.
    pub(super) fn new() -> anyhow::Result<(Self, OwnedFd)> {
        let making = "making a pipe for the command's output";
        let (read, write) = pipe_with(PipeFlags::CLOEXEC).context(making)?;
        // Above the user's limit it stays at the default, which only costs wake-ups.
        let _ = fcntl_setpipe_size(&write, PIPE);
        rustix::io::ioctl_fionbio(&read, true).context(making)?;
        let stop = eventfd(0, EventfdFlags::CLOEXEC).context(making)?;
        let stopped = stop.try_clone().context(making)?;
        let tail = Arc::new(Mutex::new(Tail::default()));
        let kept = Arc::clone(&tail);
        let reader = std::thread::Builder::new()
            .name("output".to_owned())
            .spawn(move || follow(&read, &stopped, &kept))
            .context("starting a thread for the command's output")?;
        Ok((
            Self {
                tail,
                stop,
                reader: Some(reader),
            },
            write,
        ))
    }

    /// Reads what is still in the pipe and stops. What children left behind write later is lost.
    pub(super) fn finish(&mut self) {
        let _ = rustix::io::write(&self.stop, &1_u64.to_ne_bytes());
        if let Some(reader) = self.reader.take() {
            // It has nothing in it that panics.
            let _ = reader.join();
        }
    }

    /// What was written so far: the last [`KEPT`] bytes of it.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        tail.bytes()
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        self.finish();
    }
}

/// Reads until everyone has closed the other end, or `stop` says that nobody matters any more.
fn follow(read: &OwnedFd, stop: &OwnedFd, tail: &Mutex<Tail>) {
    let mut buffer = vec![0; 256 << 10];
    loop {
        let mut fds = [
            PollFd::new(read, PollFlags::IN),
            PollFd::new(stop, PollFlags::IN),
        ];
        match poll(&mut fds, None) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return,
        }
        // Asked before the pipe is emptied: what the command wrote before it ended is in there.
        let last = !fds[1].revents().is_empty();
        // No more than fits into it, so that a child that never stops writing can't hold quell up.
        let mut left = if last { PIPE } else { usize::MAX };
        while left > 0 {
            match rustix::io::read(read.as_fd(), &mut buffer) {
                Ok(0) => return,
                Ok(n) => {
                    left = left.saturating_sub(n);
                    tail.lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push(&buffer[..n]);
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => break,
            }
        }
        if last {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that the end is kept and the rest dropped, however it comes in.
    #[test]
    fn keeps_the_end() {
        let mut tail = Tail::default();
        tail.push(&vec![b'a'; KEPT - 1]);
        tail.push(b"bc");
        assert_eq!(tail.bytes.len(), KEPT);
        assert_eq!(tail.bytes.back(), Some(&b'c'));
        tail.push(&vec![b'd'; KEPT + 5]);
        assert_eq!(tail.bytes.len(), KEPT);
        assert!(tail.bytes.iter().all(|b| *b == b'd'));
    }

    /// Check that all that was written is there after the end, though the other end stays open.
    #[test]
    fn reads_all() {
        let (mut capture, write) = Capture::new().unwrap();
        rustix::io::write(&write, b"hello").unwrap();
        capture.finish();
        assert_eq!(capture.bytes(), b"hello");
    }
}
