//! Keeps the end of a command's output, and never lets the command wait.

use std::collections::VecDeque;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use anyhow::Context as _;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};

/// The most bytes of output that are kept, from its end.
const MAX_OUTPUT_BYTES: usize = 8 << 20;
/// The size that the kernel is asked to give the pipe, so that a command rarely waits for quell.
const PIPE_BYTES: usize = 1 << 20;

#[derive(Default)]
pub(super) struct OutputTail {
    bytes: VecDeque<u8>,
}

impl OutputTail {
    pub(super) fn push(&mut self, new: &[u8]) {
        let new = &new[new.len().saturating_sub(MAX_OUTPUT_BYTES)..];
        let over = (self.bytes.len() + new.len()).saturating_sub(MAX_OUTPUT_BYTES);
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
    tail: Arc<Mutex<OutputTail>>,
    stop: OwnedFd,
    reader: Option<JoinHandle<()>>,
}

impl Capture {
    /// The capture, and the descriptor to hand to the command.
    pub(super) fn new() -> anyhow::Result<(Self, OwnedFd)> {
        let making = "making a pipe for the command's output";
        let (read, write) = pipe_with(PipeFlags::CLOEXEC).context(making)?;
        // Above the user's limit it stays at the default, which only costs wake-ups.
        let _ = fcntl_setpipe_size(&write, PIPE_BYTES);
        rustix::io::ioctl_fionbio(&read, true).context(making)?;
        let stop = eventfd(0, EventfdFlags::CLOEXEC).context(making)?;
        let stopped = stop.try_clone().context(making)?;
        let tail = Arc::new(Mutex::new(OutputTail::default()));
        let kept = Arc::clone(&tail);
        let reader = std::thread::Builder::new()
            .name("output".to_owned())
            .spawn(move || read_output(&read, &stopped, &kept))
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

    /// Reads the rest of the pipe and stops. Output that children write later is lost.
    pub(super) fn finish(&mut self) {
        let _ = rustix::io::write(&self.stop, &1_u64.to_ne_bytes());
        if let Some(reader) = self.reader.take() {
            // It has nothing in it that panics.
            let _ = reader.join();
        }
    }

    /// The output so far, or its last [`MAX_OUTPUT_BYTES`] bytes.
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
fn read_output(read: &OwnedFd, stop: &OwnedFd, tail: &Mutex<OutputTail>) {
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
        // This is asked before the pipe is emptied, which has all that the command wrote before it ended.
        let last = !fds[1].revents().is_empty();
        // In the end no more is read than fits into the pipe, so that a child that never stops writing can't hold quell up.
        let mut left = if last { PIPE_BYTES } else { usize::MAX };
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
        let mut tail = OutputTail::default();
        tail.push(&vec![b'a'; MAX_OUTPUT_BYTES - 1]);
        tail.push(b"bc");
        assert_eq!(tail.bytes.len(), MAX_OUTPUT_BYTES);
        assert_eq!(tail.bytes.back(), Some(&b'c'));
        tail.push(&vec![b'd'; MAX_OUTPUT_BYTES + 5]);
        assert_eq!(tail.bytes.len(), MAX_OUTPUT_BYTES);
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
