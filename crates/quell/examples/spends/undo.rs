//! What was changed on the system is changed back by another process, for this one may be killed.

use std::ffi::CString;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::FromRawFd as _;
use std::ptr;
use std::time::{Duration, Instant};

/// A change, and how it is taken back.
pub(crate) enum Change {
    /// A file was made for swapping.
    Swap(CString),
    /// An empty file or folder was made.
    Made(CString),
}

/// The other process, which waits until this one closes its end of a pipe, or ends, however it does.
pub(crate) struct Undo {
    pipe: File,
    pid: libc::pid_t,
}

/// What cannot be undone at once may be busy for so long.
const PATIENCE: Duration = Duration::from_secs(20);

fn undo(change: &Change) {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        // SAFETY: texts that end with a NUL.
        let is_done = unsafe {
            match change {
                Change::Swap(path) => {
                    libc::swapoff(path.as_ptr());
                    libc::unlink(path.as_ptr()) == 0
                }
                Change::Made(path) => {
                    libc::rmdir(path.as_ptr()) == 0 || libc::unlink(path.as_ptr()) == 0
                }
            }
        };
        if is_done || std::io::Error::last_os_error().kind() == std::io::ErrorKind::NotFound {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

impl Undo {
    /// Begins to wait, before the first of these is done: what was not done needs no undoing. The last is undone first.
    pub(crate) fn later(changes: &[Change]) -> Self {
        let mut ends = [0; 2];
        // SAFETY: the kernel fills the array; nobody else has the descriptors. There is one thread, so the child may do
        // whatever it likes.
        unsafe {
            let made = libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC);
            assert_eq!(made, 0, "pipe2: {}", std::io::Error::last_os_error());
            let [theirs, ours] = ends;
            let pid = libc::fork();
            assert!(pid >= 0, "fork: {}", std::io::Error::last_os_error());
            if pid == 0 {
                // signals to this program's group are not for it
                libc::setsid();
                libc::close(ours);
                let _ = File::from_raw_fd(theirs).read(&mut [0]);
                changes.iter().rev().for_each(undo);
                libc::_exit(0);
            }
            libc::close(theirs);
            Self {
                pipe: File::from_raw_fd(ours),
                pid,
            }
        }
    }

    /// Has all of it undone now, and waits for that.
    pub(crate) fn now(mut self) {
        let _ = self.pipe.write(&[0]);
        // SAFETY: its own child.
        unsafe { libc::waitpid(self.pid, ptr::null_mut(), 0) };
    }
}
