//! A value that is made once, in memory that is there, and only read from then on. Nobody waits for it: whoever comes
//! while it is made does without.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU8, Ordering};

pub(crate) struct Once<T> {
    state: AtomicU8,
    value: UnsafeCell<T>,
}

const STATE_EMPTY: u8 = 0;
const STATE_FILLING: u8 = 1;
const STATE_FILLED: u8 = 2;

// SAFETY: written by whoever brought the state from STATE_EMPTY to STATE_FILLING, and read when it is STATE_FILLED, after
// which nobody writes.
unsafe impl<T: Send + Sync> Sync for Once<T> {}

impl<T> Once<T> {
    pub(crate) const fn new(empty: T) -> Once<T> {
        Once {
            state: AtomicU8::new(STATE_EMPTY),
            value: UnsafeCell::new(empty),
        }
    }

    /// The value, once it is there.
    #[inline]
    pub(crate) fn get_filled(&self) -> Option<&T> {
        let there = self.state.load(Ordering::Acquire) == STATE_FILLED;
        // SAFETY: it is not written any more: see `Sync`.
        there.then(|| unsafe { &*self.value.get() })
    }

    /// Whether `fill` has made it, just now: not where it was there before, where `fill` says no, which is tried again
    /// the next time, and while another thread is at it, or this one below a signal handler.
    pub(crate) fn try_fill(&self, fill: impl FnOnce(&mut T) -> bool) -> bool {
        let (before, after) = (Ordering::Acquire, Ordering::Relaxed);
        let first = self
            .state
            .compare_exchange(STATE_EMPTY, STATE_FILLING, before, after);
        if first.is_err() {
            return false;
        }
        // SAFETY: see `Sync`.
        let filled = fill(unsafe { &mut *self.value.get() });
        let state = if filled { STATE_FILLED } else { STATE_EMPTY };
        self.state.store(state, Ordering::Release);
        filled
    }

    /// It, made by [`Once::try_fill`] if it is not there yet.
    #[cfg(quell_preload)]
    #[inline]
    pub(crate) fn get(&self, fill: impl FnOnce(&mut T) -> bool) -> Option<&T> {
        if self.get_filled().is_none() {
            self.try_fill(fill);
        }
        self.get_filled()
    }
}
