//! What is found out once, by whoever first needs it, in memory that is there: a signal stack may be small.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU8, Ordering};

pub(super) struct Once<T> {
    state: AtomicU8,
    value: UnsafeCell<T>,
}

const NONE: u8 = 0;
const COMING: u8 = 1;
const THERE: u8 = 2;

// SAFETY: written by whoever brought the state from NONE to COMING, and read when it is THERE, after which nobody
// writes.
unsafe impl<T: Send + Sync> Sync for Once<T> {}

impl<T> Once<T> {
    pub(super) const fn new(empty: T) -> Once<T> {
        Once {
            state: AtomicU8::new(NONE),
            value: UnsafeCell::new(empty),
        }
    }

    /// What `fill` made of it; none where that says no, which is tried again the next time, and while another thread
    /// is at it, or this one below a signal handler.
    pub(super) fn get(&self, fill: impl FnOnce(&mut T) -> bool) -> Option<&T> {
        let (before, after) = (Ordering::Acquire, Ordering::Acquire);
        match self.state.compare_exchange(NONE, COMING, before, after) {
            Ok(_) => {
                // SAFETY: see `Sync`.
                let filled = fill(unsafe { &mut *self.value.get() });
                let state = if filled { THERE } else { NONE };
                self.state.store(state, Ordering::Release);
                if !filled {
                    return None;
                }
            }
            Err(THERE) => {}
            Err(_) => return None,
        }
        // SAFETY: it is not written any more: see `Sync`.
        Some(unsafe { &*self.value.get() })
    }

    /// In the child of fork(2): whoever was at it may be a thread that the child does not have. If it is this one,
    /// below a handler that forks, both write the same.
    pub(super) fn abandon(&self) {
        let order = Ordering::Relaxed;
        let _ = self.state.compare_exchange(COMING, NONE, order, order);
    }
}
