//! The one lock: short, never held over a system call but fork(2), and never waited for without an end.
//!
//! Whoever holds it only changes tables. A signal handler may run in the holder's thread, and must not
//! wait for it then: it is told so ([`Taken::Mine`]). A handler that leaves by siglongjmp(3) out of the
//! holder leaves the lock taken for good; the library then turns itself off (see [`Lock::take`]).

use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use crate::Kernel;

const FREE: u32 = 0;
const HELD: u32 = 1;
/// Held, and somebody sleeps for it.
const WAITED_FOR: u32 = 2;

/// How often a lock that is held is looked at before it is given up: about 3 us, ten times what it is
/// held for. A real-time thread that took the CPU from the holder gets on after that.
const LOOKS: u32 = 100;
/// So long is slept for it in all: 64 times 16 ms. The holder needs well under 10 us.
const SLEEPS: u32 = 64;
const SLEEP_MS: u32 = 16;

/// What became of taking it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// It is ours.
    Yes,
    /// This very thread holds it: we are in a signal handler.
    Mine,
    /// Somebody else holds it.
    Busy,
}

#[derive(Default)]
pub(crate) struct Lock {
    word: AtomicU32,
    owner: AtomicUsize,
    /// Held over a fork(2), which takes as long as it takes.
    pub(crate) forking: AtomicU32,
}

impl Lock {
    fn at_once(&self, me: usize) -> Taken {
        let free = self
            .word
            .compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed);
        if free.is_ok() {
            self.owner.store(me, Ordering::Relaxed);
            return Taken::Yes;
        }
        // Between taking it and saying so, a handler sees the last owner, or none: it finds the lock
        // busy, which is as good, since it does not wait long either.
        if self.owner.load(Ordering::Relaxed) == me {
            Taken::Mine
        } else {
            Taken::Busy
        }
    }

    /// Takes it if that is possible soon.
    pub(crate) fn try_take(&self, kernel: &impl Kernel) -> Taken {
        let me = kernel.thread();
        for _ in 0..LOOKS {
            match self.at_once(me) {
                Taken::Busy => core::hint::spin_loop(),
                taken => return taken,
            }
        }
        Taken::Busy
    }

    /// Takes it, and sleeps for it if need be. Busy after a second: its holder is gone.
    pub(crate) fn take(&self, kernel: &impl Kernel) -> Taken {
        let taken = self.try_take(kernel);
        if taken != Taken::Busy {
            return taken;
        }
        let me = kernel.thread();
        let mut slept = 0;
        while slept < SLEEPS {
            if self.word.swap(WAITED_FOR, Ordering::Acquire) == FREE {
                self.owner.store(me, Ordering::Relaxed);
                return Taken::Yes;
            }
            if self.owner.load(Ordering::Relaxed) == me {
                return Taken::Mine;
            }
            kernel.sleep(&self.word, WAITED_FOR, SLEEP_MS);
            if self.forking.load(Ordering::Relaxed) == 0 {
                slept += 1;
            }
        }
        Taken::Busy
    }

    /// Gives it back.
    pub(crate) fn release(&self, kernel: &impl Kernel) {
        self.owner.store(0, Ordering::Relaxed);
        if self.word.swap(FREE, Ordering::Release) == WAITED_FOR {
            kernel.wake(&self.word);
        }
    }
}
