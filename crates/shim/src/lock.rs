//! The one lock: short, never held over a system call but fork(2), and never waited for without an end.
//!
//! Whoever holds it only changes tables. A signal handler may run in the holder's thread, and must not
//! wait for it then: it is told so ([`Taken::Mine`]). That is why the lock is the number of its holder,
//! taken and given back in one step: there is no moment at which it is held and the handler can't see
//! by whom. A handler that leaves by siglongjmp(3) out of the holder leaves the lock taken for good, and one that waits
//! there for who wants the lock would wait for ever; the library then turns itself off (see [`Lock::take`]).

use core::sync::atomic::AtomicU32 as Statistic;

use crate::Threads;
use crate::lock_crowd::LockUseCounts;
use crate::sync::{AtomicBool, AtomicU32, AtomicUsize, Ordering, spin_pause};

/// How often a lock that is held is looked at before it is given up: about 3 us, ten times as long as it is held, but
/// where the whole table is forgotten (`Shim::stop_keeping`), or many ranges are looked through. A real-time thread
/// that took the CPU from the holder gets on after that.
const MAX_LOOKS: u32 = if cfg!(loom) { 1 } else { 100 };
/// So often is slept in vain, for a second in all: 64 times 16 ms in which nobody has given it back. The holder needs well
/// under 10 us.
const MAX_VAIN_SLEEPS: u32 = 64;
const SLEEP_MS: u32 = 16;
/// So often where its holder forks: the kernel lets nobody change the memory that it copies, so these calls would wait anyway.
const MAX_FORK_SLEEPS: u32 = 4;
/// The first sleeps are shorter.
const SHORT_SLEEP_COUNT: u32 = 4;
const SHORT_SLEEP_MS: u32 = 2;
/// A holder that is found asleep so often, one time after the other, is in a signal handler that waits: while it has the lock, it
/// does nothing by itself that sleeps.
const MAX_LOOKS_ASLEEP: u32 = 3;
/// So long in all, though others have it and give it back all the time: there is an end to everything.
const MAX_WAIT_NS: u64 = 16_000_000_000;

/// So many sleeps have not all been cut short by signals if the clock has gone on by this, ns. It is half of what they take:
/// under a filter of system calls the clock may be a third too slow (`Linux::now_ns`), and the first sleeps are short.
const fn least_sleep_ns(sleeps: u32) -> u64 {
    if cfg!(loom) {
        0
    } else {
        sleeps as u64 * SLEEP_MS as u64 * 1_000_000 / 2
    }
}

/// The result of an attempt to take it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// The lock is ours.
    Yes,
    /// This very thread holds it: we are in a signal handler. Or another holds it over a fork(2) that
    /// takes long: perhaps it waits for a lock that this thread has.
    Mine,
    /// Somebody else holds it.
    Busy,
}

/// In a place of its own in the caches: who waits looks at it again and again.
#[derive(Default)]
#[cfg_attr(not(loom), repr(align(128)))]
pub(crate) struct Lock {
    /// The number of the thread that holds it; 0 is nobody.
    holder: AtomicUsize,
    /// How many sleep for it.
    asleep: AtomicU32,
    /// Changes whenever somebody who slept may try again.
    freed: AtomicU32,
    /// Held over a fork(2): so many, one within the other in handlers.
    pub(crate) forking: AtomicU32,
    /// Somebody has waited for that in vain: it may be the fork that waits, for a lock that he has.
    given_up: AtomicBool,
    /// So often it was looked at while one after the other held it, by those who had it soon, since somebody asked.
    looks: Statistic,
    /// How often it was taken since then.
    taken: Statistic,
}

impl Lock {
    /// Takes it, or says who has it.
    fn take_or_see_holder(&self, me: usize) -> Result<(), usize> {
        // To try it would take its place in the caches from the holder, who is about to write there. To loom it is one look more,
        // in ten times as many orders.
        if cfg!(not(loom)) {
            let holder = self.holder.load(Ordering::Relaxed);
            if holder != 0 {
                return Err(holder);
            }
        }
        let order = (Ordering::SeqCst, Ordering::Relaxed);
        self.holder.compare_exchange(0, me, order.0, order.1)?;
        // Nobody else counts meanwhile. Whoever asks may find that his 0 was written over: it is an estimate.
        let taken = self.taken.load(Ordering::Relaxed);
        self.taken.store(taken.wrapping_add(1), Ordering::Relaxed);
        Ok(())
    }

    fn take_or_say_why(&self, me: usize) -> Taken {
        match self.take_or_see_holder(me) {
            Ok(()) => Taken::Yes,
            Err(holder) if holder == me => Taken::Mine,
            Err(_) => Taken::Busy,
        }
    }

    /// Takes it if that is possible soon.
    pub(crate) fn try_take(&self, kernel: &impl Threads) -> Taken {
        self.take_within_looks(kernel.thread_id(), spin_pause)
    }

    /// Looks so often, with a pause between: for a lock that is held for a tenth of a microsecond.
    fn take_within_looks(&self, me: usize, mut pause: impl FnMut()) -> Taken {
        let mut first_holder = None;
        let mut holders_changed = false;
        for looks in 0..=MAX_LOOKS {
            match self.take_or_see_holder(me) {
                Ok(()) => {
                    // A thread that waits for one other is no crowd.
                    if holders_changed {
                        self.looks.fetch_add(looks, Ordering::Relaxed);
                    }
                    return Taken::Yes;
                }
                Err(holder) if holder == me => return Taken::Mine,
                Err(holder) => {
                    holders_changed |= *first_holder.get_or_insert(holder) != holder;
                }
            }
            if looks < MAX_LOOKS {
                pause();
            }
        }
        // Its holder has lost the CPU, or forks: that is no crowd.
        Taken::Busy
    }

    /// Takes it if nobody holds it: for work that is left undone otherwise.
    pub(crate) fn take_free(&self, kernel: &impl Threads) -> Taken {
        self.take_or_say_why(kernel.thread_id())
    }

    /// How it was used since this was asked last.
    pub(crate) fn take_use_counts(&self) -> LockUseCounts {
        LockUseCounts {
            taken: self.taken.swap(0, Ordering::Relaxed),
            looks: self.looks.swap(0, Ordering::Relaxed),
        }
    }

    /// Takes it, and sleeps for it if need be. Busy after a second in which nobody has given it back: its holder is gone. Or
    /// after some milliseconds if its holder sleeps, and after [`MAX_WAIT_NS`] in any case. Mine also where its holder forks
    /// and that takes long: after some tens of milliseconds for the first who waits, at once for the next.
    pub(crate) fn take(&self, kernel: &impl Threads) -> Taken {
        let mut taken = self.try_take(kernel);
        if taken != Taken::Busy {
            return taken;
        }
        // Once for each fork, and not in each call of a loop with the lock that the fork waits for.
        if self.is_forking() && self.given_up.load(Ordering::Relaxed) {
            return Taken::Mine;
        }
        let me = kernel.thread_id();
        let began = kernel.now_ns();
        self.asleep.fetch_add(1, Ordering::SeqCst);
        // A turn in which it was given back says that its holder lives, however fast others are at taking it.
        let mut in_vain = 0;
        let mut last = None;
        let mut found_asleep = 0;
        loop {
            let seen = self.freed.load(Ordering::SeqCst);
            taken = self.take_or_say_why(me);
            if taken != Taken::Busy {
                break;
            }
            let is_vain = last == Some(seen);
            in_vain += u32::from(is_vain);
            last = Some(seen);
            let waited = kernel.now_ns().saturating_sub(began);
            if in_vain >= MAX_VAIN_SLEEPS && waited >= least_sleep_ns(MAX_VAIN_SLEEPS)
                || waited >= MAX_WAIT_NS
            {
                break;
            }
            // Its holder changes nothing then, and looks at its news when the fork is over.
            if in_vain >= MAX_FORK_SLEEPS
                && waited >= least_sleep_ns(MAX_FORK_SLEEPS)
                && self.is_forking()
            {
                self.given_up.store(true, Ordering::Relaxed);
                taken = Taken::Mine;
                break;
            }
            let sleeps = is_vain && !self.is_forking() && kernel.is_asleep(self.holder());
            found_asleep = if sleeps { found_asleep + 1 } else { 0 };
            if found_asleep >= MAX_LOOKS_ASLEEP && waited >= u64::from(SHORT_SLEEP_MS) * 1_000_000 {
                break;
            }
            let ms = if in_vain < SHORT_SLEEP_COUNT {
                SHORT_SLEEP_MS
            } else {
                SLEEP_MS
            };
            kernel.sleep_while(&self.freed, seen, ms);
        }
        let less = |asleep: u32| asleep.checked_sub(1);
        let order = (Ordering::SeqCst, Ordering::SeqCst);
        let _ = self.asleep.fetch_update(order.0, order.1, less);
        taken
    }

    /// Gives it back.
    pub(crate) fn release(&self, kernel: &impl Threads) {
        self.holder.store(0, Ordering::SeqCst);
        // Whoever is counted after this has seen the lock free, or sleeps until the next one, or 16 ms.
        if self.asleep.load(Ordering::SeqCst) > 0 {
            self.freed.fetch_add(1, Ordering::SeqCst);
            // One can take it. If another was faster, he wakes the next.
            kernel.wake_one(&self.freed);
        }
    }

    /// Whether it is held over a fork(2).
    pub(crate) fn is_forking(&self) -> bool {
        self.forking.load(Ordering::Relaxed) > 0
    }

    /// In the child of fork(2): those who slept are gone, or this thread, which counts itself out once it is awake.
    pub(crate) fn reset_sleepers(&self) {
        self.asleep.store(0, Ordering::SeqCst);
    }

    /// Another fork, before it begins: it is waited for again.
    pub(crate) fn note_new_fork(&self) {
        self.given_up.store(false, Ordering::Relaxed);
    }

    /// Who holds it, 0 for nobody.
    pub(crate) fn holder(&self) -> usize {
        self.holder.load(Ordering::Relaxed)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use core::cell::Cell;

    /// A machine on which the holder gives the lock back, or doesn't, and another has it, whenever somebody sleeps.
    #[derive(Default)]
    struct Crowded {
        lock: Lock,
        /// So often another is faster; none goes on after that.
        others: Cell<u32>,
        /// Nobody gives it back, and signals end the sleep at once.
        signals: bool,
        /// The holder sleeps.
        asleep: bool,
        sleeps: Cell<u32>,
        woken: Cell<u32>,
        clock: Cell<u64>,
    }

    impl Threads for Crowded {
        fn thread_id(&self) -> usize {
            7
        }
        fn sleep_while(&self, _: &AtomicU32, _: u32, _: u32) {
            self.sleeps.set(self.sleeps.get() + 1);
            self.clock.set(self.clock.get() + 1000);
            if self.signals {
                return;
            }
            match self.others.get() {
                0 => self.clock.set(self.clock.get() + 16_000_000),
                1 => self.lock.holder.store(0, Ordering::SeqCst),
                _ => {
                    self.lock.freed.fetch_add(1, Ordering::SeqCst);
                }
            }
            self.others.set(self.others.get().saturating_sub(1));
        }
        fn wake_all(&self, _: &AtomicU32) {}
        fn wake_one(&self, _: &AtomicU32) {
            self.woken.set(self.woken.get() + 1);
        }
        fn now_ns(&self) -> u64 {
            self.clock.get()
        }
        fn is_asleep(&self, thread: usize) -> bool {
            assert_eq!(thread, 3);
            self.asleep
        }
    }

    fn held(others: u32, signals: bool) -> Crowded {
        let crowded = Crowded {
            others: Cell::new(others),
            signals,
            ..Crowded::default()
        };
        crowded.lock.holder.store(3, Ordering::SeqCst);
        crowded
    }

    /// Check that whoever gives the lock back wakes one where somebody sleeps for it, and makes no call where nobody does.
    #[test]
    fn one_is_woken() {
        for asleep in [0, 1, 7] {
            let crowded = Crowded::default();
            assert_eq!(crowded.lock.take(&crowded), Taken::Yes);
            crowded.lock.asleep.store(asleep, Ordering::SeqCst);
            crowded.lock.release(&crowded);
            assert_eq!(crowded.woken.get(), asleep.min(1));
        }
    }

    /// Check that takings are counted until somebody asks, and that looks in vain are not.
    #[test]
    fn used() {
        let crowded = held(0, false);
        assert_eq!(crowded.lock.try_take(&crowded), Taken::Busy);
        let used = crowded.lock.take_use_counts();
        assert_eq!((used.taken, used.looks), (0, 0));
        crowded.lock.release(&crowded);
        assert_eq!(crowded.lock.try_take(&crowded), Taken::Yes);
        let used = crowded.lock.take_use_counts();
        assert_eq!((used.taken, used.looks), (1, 0));
        assert_eq!(crowded.lock.take_use_counts().taken, 0);
    }

    /// Check that the looks of who waits for one other thread are not counted, however long that one has it, and those of who sees
    /// another have it after the first are.
    #[test]
    fn looks() {
        for (holders, counted) in [(&[3; 90][..], 0), (&[3, 4], 2), (&[3, 4, 3], 3)] {
            let lock = Lock::default();
            let mut next = holders.iter().copied().chain([0]);
            let mut give = || {
                lock.holder
                    .store(next.next().unwrap_or(0), Ordering::SeqCst);
            };
            give();
            assert_eq!(lock.take_within_looks(7, give), Taken::Yes);
            let used = lock.take_use_counts();
            assert_eq!((used.taken, used.looks), (1, counted), "{holders:?}");
        }
    }

    /// Check that a lock that others take first a thousand times in a millisecond is had in the end, and not given up.
    #[test]
    fn a_crowd_is_no_death() {
        let crowded = held(1000, false);
        assert_eq!(crowded.lock.take(&crowded), Taken::Yes);
        assert_eq!(crowded.sleeps.get(), 1000);
    }

    /// Check that a lock that nobody gives back is given up after about a second, also where signals end each sleep.
    #[test]
    fn a_death_is_noticed() {
        for signals in [false, true] {
            let crowded = held(0, signals);
            assert_eq!(crowded.lock.take(&crowded), Taken::Busy);
            let waited = crowded.clock.get() / 1_000_000;
            assert!((500..1100).contains(&waited), "{waited} ms");
        }
    }

    /// Check that a holder that sleeps is given up after some milliseconds, and one over a fork(2) is not taken for that.
    #[test]
    fn a_sleep_is_noticed() {
        let crowded = Crowded {
            asleep: true,
            ..held(0, false)
        };
        assert_eq!(crowded.lock.take(&crowded), Taken::Busy);
        assert_eq!(crowded.sleeps.get(), 3);
        crowded.lock.forking.store(1, Ordering::Relaxed);
        assert_eq!(crowded.lock.take(&crowded), Taken::Mine);
    }
}
