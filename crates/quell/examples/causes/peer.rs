//! Somebody to interrupt: a thread, or a process, that spins on CPU 1.

use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::memory::{PAGE, map_with, pin};

/// No peer spins for longer, whatever happens.
pub(crate) const LONGEST: Duration = Duration::from_secs(120);

/// What the two sides tell each other, in memory that processes share.
struct Shared {
    beats: AtomicU64,
    stop: AtomicU64,
}

/// A peer that runs.
#[derive(Clone, Copy)]
pub(crate) struct Peer {
    shared: &'static Shared,
    /// Where it is a process.
    pid: Option<libc::pid_t>,
}

impl Peer {
    fn new() -> Self {
        let p = map_with(PAGE, libc::MAP_SHARED | libc::MAP_ANONYMOUS, None);
        // SAFETY: a page of zeros is a valid `Shared`, which stays mapped until the process ends.
        let shared = unsafe { &*p.cast::<Shared>() };
        Self { shared, pid: None }
    }

    fn spin(self, deadline: Instant) {
        while self.shared.stop.load(Ordering::Relaxed) == 0 && Instant::now() < deadline {
            self.shared.beats.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A thread of this process.
    pub(crate) fn thread() -> Self {
        let peer = Self::new();
        std::thread::spawn(move || {
            pin(1);
            peer.spin(Instant::now() + LONGEST);
        });
        peer
    }

    /// A child, that first does `first`.
    pub(crate) fn child(first: impl FnOnce()) -> Self {
        let mut peer = Self::new();
        // SAFETY: this process has one thread where it forks; the child calls nothing that could hold a
        // lock, ends with _exit(), and with its parent.
        unsafe {
            let pid = libc::fork();
            assert!(pid >= 0, "fork: {}", std::io::Error::last_os_error());
            if pid == 0 {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                pin(1);
                first();
                peer.spin(Instant::now() + LONGEST);
                libc::_exit(0);
            }
            peer.pid = Some(pid);
        }
        peer.wait();
        peer
    }

    /// Waits until it runs: on a busy machine it often doesn't, and then it is not hit.
    pub(crate) fn wait(self) {
        let deadline = Instant::now() + Duration::from_secs(1);
        let before = self.shared.beats.load(Ordering::Relaxed);
        while self.shared.beats.load(Ordering::Relaxed) < before + 10 && Instant::now() < deadline {
            std::hint::spin_loop();
        }
    }

    /// Its process, 0 if it is a thread.
    pub(crate) fn pid(self) -> libc::pid_t {
        self.pid.unwrap_or(0)
    }

    /// Ends it; a process is waited for.
    pub(crate) fn end(self) {
        self.shared.stop.store(1, Ordering::Relaxed);
        if let Some(pid) = self.pid {
            // SAFETY: our own child, and no status is asked for.
            unsafe { libc::waitpid(pid, ptr::null_mut(), 0) };
        }
    }
}
