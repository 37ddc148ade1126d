//! Atomics and the cell, of the standard library; in tests with `--cfg loom`, of loom, which runs a test
//! in every order that the memory model allows.

#[cfg(not(loom))]
pub use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
#[cfg(loom)]
pub use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

/// A value that one thread at a time may look at: who uses it holds the lock, or the claim, that lies beside it. Nothing but loom
/// checks that.
#[cfg(not(loom))]
pub(crate) struct Guarded<T>(core::cell::UnsafeCell<T>);
#[cfg(loom)]
pub(crate) struct Guarded<T>(loom::cell::UnsafeCell<T>);

impl<T> Guarded<T> {
    pub(crate) fn new(value: T) -> Self {
        #[cfg(not(loom))]
        return Guarded(core::cell::UnsafeCell::new(value));
        #[cfg(loom)]
        return Guarded(loom::cell::UnsafeCell::new(value));
    }

    /// Hands it to `work`.
    ///
    /// # Safety
    ///
    /// Nobody else is at it: the caller holds its lock.
    pub(crate) unsafe fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        #[cfg(not(loom))]
        // SAFETY: the caller's promise.
        return work(unsafe { &mut *self.0.get() });
        #[cfg(loom)]
        // SAFETY: the caller's promise, which loom checks.
        return self.0.with_mut(|value| work(unsafe { &mut *value }));
    }
}

/// Nothing to do for a moment.
pub(crate) fn spin_pause() {
    #[cfg(not(loom))]
    core::hint::spin_loop();
    #[cfg(loom)]
    loom::thread::yield_now();
}
