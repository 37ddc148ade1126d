//! Whether other threads are at work while one gives memory back: only then is there somebody to interrupt. A program may have
//! a pool of threads that sleep, as whoever loads numpy or Polars has, and then a shootdown interrupts nobody.

use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use crate::kernel::Threads;

/// Others are at work if the CPUs work for them at least one part in so many of the time for the thread that looks. The
/// kernel brings the time of threads that run up to date with each tick only, of 10 ms at most (thread_group_cputime,
/// kernel/sched/cputime.c, Linux 6.18), which is less than that part of the 100 ms between two looks. On CPUs without a
/// tick (nohz_full) that is a second, and in between those threads count as idle.
const WORKING_PART: u64 = 8;

/// All of it is an estimate, by which something is done in one way or another that are both right: so nothing is said of the
/// order in which others see it.
pub(crate) struct OtherThreads {
    work: AtomicBool,
    /// The thread that was seen last, and whether there was another since the last look.
    seen: AtomicUsize,
    was_another_seen: AtomicBool,
    /// At the last look: the thread that looked, its CPU time and that of all threads, ns.
    looker: AtomicUsize,
    mine_ns: AtomicU64,
    all_ns: AtomicU64,
}

impl Default for OtherThreads {
    fn default() -> Self {
        OtherThreads {
            work: AtomicBool::new(false),
            seen: AtomicUsize::new(0),
            was_another_seen: AtomicBool::new(false),
            looker: AtomicUsize::new(0),
            mine_ns: AtomicU64::new(0),
            all_ns: AtomicU64::new(0),
        }
    }
}

impl OtherThreads {
    /// Whether others were at work at the last look.
    pub(crate) fn are_working(&self) -> bool {
        self.work.load(Ordering::Relaxed)
    }

    /// A thread makes a call. Now and then is enough: two that give back are soon seen one after the other.
    pub(crate) fn note_caller(&self, thread: usize) {
        let last = self.seen.swap(thread, Ordering::Relaxed);
        if last != 0 && last != thread {
            self.was_another_seen.store(true, Ordering::Relaxed);
            self.work.store(true, Ordering::Relaxed);
        }
    }

    /// Reads how much CPU time each side has used since the last time.
    pub(crate) fn sample_cpu_time(&self, kernel: &impl Threads) {
        let order = Ordering::Relaxed;
        let was_another_seen = self.was_another_seen.swap(false, order);
        let (me, mine, all) = (
            kernel.thread_id(),
            kernel.thread_cpu_ns(),
            kernel.process_cpu_ns(),
        );
        let last = self.looker.swap(me, order);
        let mine_before = self.mine_ns.swap(mine, order);
        let all_before = self.all_ns.swap(all, order);
        // Neither is known of another thread, or of this one before a fork(2).
        let since = (last == me)
            .then(|| {
                mine.checked_sub(mine_before)
                    .zip(all.checked_sub(all_before))
            })
            .flatten();
        let work = match since {
            Some((mine, all)) => are_at_work(mine, all),
            None => self.are_working(),
        };
        self.work.store(was_another_seen || work, order);
    }

    /// This is the child of a fork(2), which has one thread.
    pub(crate) fn reset_in_child(&self) {
        self.work.store(false, Ordering::Relaxed);
        self.seen.store(0, Ordering::Relaxed);
        self.was_another_seen.store(false, Ordering::Relaxed);
    }
}

/// Whether others are, if the CPUs worked so long for one thread and so long for all, in ns.
fn are_at_work(mine: u64, all: u64) -> bool {
    all.saturating_sub(mine) > mine / WORKING_PART
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sync::AtomicU32;
    use core::cell::Cell;
    use proptest::prelude::*;

    /// A thread, its CPU time and that of all.
    #[derive(Default)]
    struct ThreadClocks(Cell<(usize, u64, u64)>);

    impl Threads for ThreadClocks {
        fn thread_id(&self) -> usize {
            self.0.get().0
        }
        fn sleep_while(&self, _: &AtomicU32, _: u32, _: u32) {}
        fn wake_all(&self, _: &AtomicU32) {}
        fn now_ns(&self) -> u64 {
            0
        }
        fn thread_cpu_ns(&self) -> u64 {
            self.0.get().1
        }
        fn process_cpu_ns(&self) -> u64 {
            self.0.get().2
        }
    }

    /// Check that a thread is alone at work whatever others did before, that another is seen by its CPU time and by its
    /// calls, and that a thread that looks for the first time changes nothing.
    #[test]
    fn others() {
        let (others, clocks) = (OtherThreads::default(), ThreadClocks::default());
        let look = |thread, mine, all| {
            clocks.0.set((thread, mine, all));
            others.sample_cpu_time(&clocks);
            others.are_working()
        };
        assert!(!look(1, 100, 5_000));
        assert!(!look(1, 1_100, 6_010));
        assert!(look(1, 2_100, 7_500));
        assert!(look(2, 50, 9_000));
        assert!(!look(2, 1_050, 10_000));
        for thread in [2, 2, 3] {
            others.note_caller(thread);
        }
        assert!(others.are_working());
        assert!(look(2, 2_050, 11_000));
        assert!(!look(2, 3_050, 12_000));
    }

    /// Check that a child of a fork has nobody beside it, and that clocks which begin anew are no work of others.
    #[test]
    fn child() {
        let (others, clocks) = (OtherThreads::default(), ThreadClocks::default());
        others.note_caller(1);
        others.note_caller(2);
        others.reset_in_child();
        others.note_caller(1);
        assert!(!others.are_working());
        clocks.0.set((2, 5_000, 9_000));
        others.sample_cpu_time(&clocks);
        clocks.0.set((2, 10, 10));
        others.sample_cpu_time(&clocks);
        assert!(!others.are_working());
    }

    proptest! {
        /// Check that more work of others never makes them idle, and none of theirs never makes them work.
        #[test]
        fn more(mine in 0..1_u64 << 40, theirs in 0..1_u64 << 40, more in 0..1_u64 << 40) {
            prop_assert!(!are_at_work(mine, mine));
            prop_assert!(!are_at_work(mine, mine + theirs) || are_at_work(mine, mine + theirs + more));
        }
    }
}
