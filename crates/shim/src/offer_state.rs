//! What the kernel made of the offers, for all threads.

use crate::sync::{AtomicBool, Ordering};

/// How the kernel took the offers.
#[derive(Default)]
pub(crate) struct Offers {
    /// It has taken some, or refuses: from now on no more is kept than need not be offered.
    over: AtomicBool,
    /// The kernel does not take many at once.
    pub(crate) alone: AtomicBool,
    /// Something is to be offered by who is done with the batch next.
    pub(crate) wait: AtomicBool,
}

impl Offers {
    pub(crate) fn are_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// The kernel has refused many at once.
    pub(crate) fn go_alone(&self) {
        self.alone.store(true, Ordering::Relaxed);
    }

    pub(crate) fn end_for_good(&self) {
        self.over.store(true, Ordering::Relaxed);
    }
}
