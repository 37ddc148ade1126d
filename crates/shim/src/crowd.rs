//! Whether so many threads are at the lock that to wait for it takes longer than what is done under it saves.
//!
//! All that the library does to save time takes the lock a few times, for a tenth of a microsecond each. Two threads that do
//! nothing else hardly meet. Sixteen on as many CPUs do all the time: each page given back took five times as long as the kernel
//! takes. Then what needs not be done is left for a while, so that only that needs the lock which the table has to know.

use core::sync::atomic::{AtomicU32, Ordering};

/// So many looks at a lock that was held for each call, on average, are a crowd. A look takes 10 to 50 ns.
const MANY: u32 = 8;
/// The first pause is of so many calls, and each that follows a pause closely is twice as long, so often.
const PAUSE: u32 = 1 << 10;
const MOST_DOUBLED: u32 = 10;

/// All of it is an estimate.
#[derive(Default)]
pub(crate) struct Crowd {
    /// The number of the call at which the pause began, and how many calls it lasts; 0 where there is none.
    from: AtomicU32,
    lasts: AtomicU32,
    /// Pauses that followed each other, less the times that there was no crowd.
    pauses: AtomicU32,
}

impl Crowd {
    /// Whether what needs not be done is to be left, at the call of this number. Numbers begin anew after the last.
    pub(crate) fn is_there(&self, call: u32) -> bool {
        let lasts = self.lasts.load(Ordering::Relaxed);
        lasts > 0 && call.wrapping_sub(self.from.load(Ordering::Relaxed)) < lasts
    }

    /// At the call of this number, after so many: how many looks there were at a lock that was held.
    pub(crate) fn looked(&self, call: u32, calls: u32, looks: u32) {
        let order = Ordering::Relaxed;
        if self.is_there(call) {
            return;
        }
        let pauses = self.pauses.load(order);
        if looks < calls.saturating_mul(MANY) {
            self.lasts.store(0, order);
            self.pauses.store(pauses.saturating_sub(1), order);
            return;
        }
        self.from.store(call, order);
        self.lasts.store(PAUSE << pauses.min(MOST_DOUBLED), order);
        self.pauses.store((pauses + 1).min(MOST_DOUBLED), order);
    }

    /// This is the child of a fork(2), which has one thread.
    pub(crate) fn is_gone(&self) {
        self.lasts.store(0, Ordering::Relaxed);
        self.pauses.store(0, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Check that a crowd pauses what need not be done for twice as many calls each time, and that without one it goes on.
    #[test]
    fn pauses() {
        let crowd = Crowd::default();
        let mut call = u32::MAX - 100;
        assert!(!crowd.is_there(call));
        for pause in [1024, 2048, 4096] {
            crowd.looked(call, 64, 64 * MANY);
            assert!(crowd.is_there(call) && crowd.is_there(call.wrapping_add(pause - 1)));
            call = call.wrapping_add(pause);
            assert!(!crowd.is_there(call));
        }
        crowd.looked(call, 64, 64 * MANY - 1);
        assert!(!crowd.is_there(call));
    }

    /// Check that a child of a fork begins without a crowd.
    #[test]
    fn child() {
        let crowd = Crowd::default();
        crowd.looked(7, 64, 1 << 20);
        assert!(crowd.is_there(8));
        crowd.is_gone();
        assert!(!crowd.is_there(8));
    }

    proptest! {
        /// Check that of a crowd that stays hardly any calls are tried, and that each pause ends.
        #[test]
        fn a_crowd_that_stays(first: u32) {
            let crowd = Crowd::default();
            let (mut call, mut tried) = (first, 0_u64);
            let mut calls = 0_u64;
            while calls < 1 << 22 {
                if crowd.is_there(call) {
                    calls += 64;
                    call = call.wrapping_add(64);
                    continue;
                }
                tried += 64;
                calls += 64;
                call = call.wrapping_add(64);
                crowd.looked(call, 64, u32::MAX);
            }
            prop_assert!(tried < 1024, "{tried}");
            prop_assert!(!crowd.is_there(call.wrapping_add(PAUSE << MOST_DOUBLED)));
        }
    }
}
