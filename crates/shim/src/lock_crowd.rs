//! Whether so many threads are at the lock that to wait for it takes longer than the work under it saves.
//!
//! All that the library does to save time takes the lock a few times, for a tenth of a microsecond each. Two threads
//! that do nothing else hardly meet. Sixteen on as many CPUs do all the time: each page given back took five times as
//! long as the kernel takes. Then work that may be left undone is left for a while, so that only that takes the lock
//! which the table has to know.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// So many looks at a lock that was held, for each time that it was taken, are a crowd. A look takes 10 to 50 ns, and a call that
/// zeroes takes it three or four times: so many looks each time take about as long as the call saves. Two threads alone are no
/// crowd, however often they meet: they may stay in step for a whole run, at 2.4 looks each time, and such runs are as fast as others
/// (bench/overhead/worst).
const LOOKS_PER_TAKE_IN_CROWD: u32 = 8;
/// The first pause is of so many calls, and each that follows a pause closely is twice as long, so often.
const FIRST_PAUSE_CALLS: u32 = 1 << 10;
const MAX_DOUBLINGS: u32 = 10;
/// None is longer than this by much, which is looked at every 64 calls: a program may make few.
const MAX_PAUSE_NS: u64 = 1_000_000_000;

/// How often the lock was taken, and looked at while one thread after the other held it.
#[derive(Clone, Copy)]
pub(crate) struct LockUseCounts {
    pub(crate) taken: u32,
    pub(crate) looks: u32,
}

/// The state of the pauses, all of it an estimate.
#[derive(Default)]
pub(crate) struct LockCrowd {
    /// The number of the call at which the pause began, and how many calls it lasts; 0 where there is none.
    from: AtomicU32,
    lasts: AtomicU32,
    /// When the pause was first seen by the clock, ns; 0 where it was not.
    since: AtomicU64,
    /// Pauses that followed each other, less the times that there was no crowd.
    pauses: AtomicU32,
}

impl LockCrowd {
    /// Whether work that may be left undone is to be left, at the call of this number. Numbers begin anew after the
    /// last.
    pub(crate) fn is_there(&self, call: u32) -> bool {
        let lasts = self.lasts.load(Ordering::Relaxed);
        lasts > 0 && call.wrapping_sub(self.from.load(Ordering::Relaxed)) < lasts
    }

    /// At the call of this number: how the lock was used by the last so many calls.
    pub(crate) fn note_lock_use(&self, call: u32, calls: u32, used: LockUseCounts) {
        let order = Ordering::Relaxed;
        let lasts = self.lasts.load(order);
        let gone = call.wrapping_sub(self.from.load(order));
        // A sight during a pause, be it for one call, says nothing of the time after it. Nor does the sight of a thread
        // that comes late, when another has begun a pause at a later call: then less than none are gone.
        if lasts > 0 && gone.cast_signed() < (lasts + calls).cast_signed() {
            return;
        }
        self.lasts.store(0, order);
        self.since.store(0, order);
        let pauses = self.pauses.load(order);
        if used.looks < used.taken.max(1).saturating_mul(LOOKS_PER_TAKE_IN_CROWD) {
            self.pauses.store(pauses.saturating_sub(1), order);
            return;
        }
        self.begin_pause(call, FIRST_PAUSE_CALLS << pauses.min(MAX_DOUBLINGS));
        self.pauses.store((pauses + 1).min(MAX_DOUBLINGS), order);
    }

    /// A pause of so many calls begins, at the call of this number.
    pub(crate) fn begin_pause(&self, call: u32, lasts: u32) {
        self.from.store(call, Ordering::Relaxed);
        self.since.store(0, Ordering::Relaxed);
        self.lasts.store(lasts, Ordering::Relaxed);
    }

    /// Ends a pause that has lasted for long; `now` is in ns, and asked now and then.
    pub(crate) fn end_old_pause(&self, now: u64) {
        let order = Ordering::Relaxed;
        if self.lasts.load(order) == 0 {
            return;
        }
        let since = self.since.load(order);
        if since == 0 {
            self.since.store(now, order);
        } else if now.saturating_sub(since) >= MAX_PAUSE_NS {
            self.lasts.store(0, order);
            self.since.store(0, order);
        }
    }

    /// This is the child of a fork(2), which has one thread.
    pub(crate) fn reset_in_child(&self) {
        self.lasts.store(0, Ordering::Relaxed);
        self.since.store(0, Ordering::Relaxed);
        self.pauses.store(0, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CALLS: u32 = 64;
    const CROWDED: LockUseCounts = LockUseCounts {
        taken: 200,
        looks: 200 * LOOKS_PER_TAKE_IN_CROWD,
    };
    const IDLE: LockUseCounts = LockUseCounts { taken: 0, looks: 0 };

    /// Makes calls, of which the crowd is told as the library tells it, until a pause begins or is over, and counts them.
    fn calls_until(crowd: &LockCrowd, call: &mut u32, there: bool, used: LockUseCounts) -> u32 {
        let mut count = 0;
        while crowd.is_there(*call) != there && count < 1 << 22 {
            *call = call.wrapping_add(CALLS);
            crowd.note_lock_use(*call, CALLS, if there { used } else { IDLE });
            count += CALLS;
        }
        count
    }

    /// Check that a crowd pauses work that may be left undone for twice as many calls each time, though nobody is at
    /// the lock in a pause, and tries it for a few calls in between; and that without a crowd it goes on.
    #[test]
    fn pauses() {
        let crowd = LockCrowd::default();
        let mut call = u32::MAX - 100;
        assert!(!crowd.is_there(call));
        for pause in [1024, 2048, 4096] {
            assert!(calls_until(&crowd, &mut call, true, CROWDED) <= 2 * CALLS);
            assert_eq!(calls_until(&crowd, &mut call, false, CROWDED), pause);
        }
        let few = LockUseCounts {
            looks: CROWDED.looks - 1,
            ..CROWDED
        };
        assert_eq!(calls_until(&crowd, &mut call, true, few), 1 << 22);
        assert!(calls_until(&crowd, &mut call, true, CROWDED) <= CALLS);
        assert_eq!(calls_until(&crowd, &mut call, false, CROWDED), 1024);
    }

    /// Check that a thread that comes late with its sight does not end the pause that another has begun meanwhile.
    #[test]
    fn a_late_look() {
        let crowd = LockCrowd::default();
        crowd.note_lock_use(128, CALLS, CROWDED);
        crowd.note_lock_use(64, CALLS, IDLE);
        assert!(crowd.is_there(129));
    }

    /// Check that a pause of few calls ends by the clock.
    #[test]
    fn ends() {
        let crowd = LockCrowd::default();
        crowd.note_lock_use(7, CALLS, CROWDED);
        for (ms, there) in [(5_000, true), (5_900, true), (6_100, false)] {
            crowd.end_old_pause(ms * 1_000_000);
            assert_eq!(crowd.is_there(8), there, "{ms} ms");
        }
    }

    /// Check that a child of a fork begins without a crowd.
    #[test]
    fn child() {
        let crowd = LockCrowd::default();
        crowd.note_lock_use(7, CALLS, CROWDED);
        assert!(crowd.is_there(8));
        crowd.reset_in_child();
        assert!(!crowd.is_there(8));
    }

    proptest! {
        /// Check that of a crowd that stays hardly any calls are tried, and that each pause ends.
        #[test]
        fn a_crowd_that_stays(first: u32) {
            let crowd = LockCrowd::default();
            let mut call = first;
            let (mut tried, mut all) = (0, 0);
            while all < 1 << 22 {
                tried += calls_until(&crowd, &mut call, true, CROWDED);
                let pause = calls_until(&crowd, &mut call, false, CROWDED);
                prop_assert!(pause <= FIRST_PAUSE_CALLS << MAX_DOUBLINGS);
                all += pause;
            }
            prop_assert!(tried < 2048, "{tried}");
        }
    }
}
