//! A process that is forked from a worker, for an address space of its own.

use std::io;

use rustix::process::{
    Pid, Signal, WaitOptions, getpid, getppid, kill_process, set_parent_process_death_signal,
    waitpid,
};

/// A child that does some work. It ends with its work, with its parent, or when this is dropped.
#[derive(Debug)]
pub(super) struct ForkedChild(Pid);

impl ForkedChild {
    /// Starts it, on the CPU of its parent, which it inherits (sched_setaffinity(2)).
    pub(super) fn start(work: impl FnOnce() -> io::Result<()>) -> io::Result<Self> {
        let parent = getpid();
        let work = || {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            // The parent may have gone before the call above.
            if getppid() != Some(parent) {
                return Ok(());
            }
            work()
        };
        // SAFETY: a worker has one thread until its bench is made, so the child may do all that the parent may; it never
        // returns from here.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                // A panic must not unwind into stack frames of the parent's.
                let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
                // SAFETY: ends the child without running the exit handlers that the parent has registered.
                unsafe { libc::_exit(0) }
            }
            child => Pid::from_raw(child)
                .map(Self)
                .ok_or_else(|| io::Error::other("a child without a number")),
        }
    }
}

impl Drop for ForkedChild {
    fn drop(&mut self) {
        // It may have gone already, which is as good.
        let _ = kill_process(self.0, Signal::KILL);
        let _ = waitpid(Some(self.0), WaitOptions::empty());
    }
}
