//! The calls of the program, answered from what is kept or handed to the kernel.
//!
//! What is promised: a program that keeps to what Linux promises sees no difference, but that memory
//! which it has unmapped may still be there. Every call that changes what a range is goes through
//! here, or else the range is not known, and then the kernel is asked for everything.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use crate::Range;
use crate::counters::Counters;
use crate::kernel::{Errno, Kernel, Pressure};
use crate::late::Late;
use crate::lock::{Lock, Taken};
use crate::nodes::Node;
use crate::settings::{Settings, Zero};
use crate::table::Table;
use crate::trim::Leavers;

/// How often memory pressure is looked at, at most, and after how many calls.
const LOOK_EVERY_NS: u64 = 100_000_000;
const LOOK_EVERY_CALLS: u32 = 64;

/// The library, over a kernel.
pub struct Shim<K> {
    pub(crate) kernel: K,
    pub(crate) settings: Settings,
    /// Up to which size MADV_DONTNEED is answered by zeroing, in bytes; MAX until it is measured.
    pub(crate) zero_up_to: AtomicUsize,
    pub(crate) counters: &'static Counters,
    pub(crate) lock: Lock,
    late: Late,
    /// Only with the lock.
    table: UnsafeCell<Table>,
    pub(crate) leavers: Leavers,
    /// Changes, and is woken, whenever something has left.
    pub(crate) left: AtomicU32,
    /// All calls go to the kernel, for good.
    off: AtomicBool,
    /// The program has forked: pages may be shared with a child.
    pub(crate) forked: AtomicBool,
    short: AtomicBool,
    calls: AtomicU32,
    looked: AtomicU64,
}

// SAFETY: the table is used with the lock only, and what leaves by one thread at a time (`Leavers`).
unsafe impl<K: Sync> Sync for Shim<K> {}

/// What a part of the work that needs the lock came to.
pub(crate) enum Locked<T> {
    Done(T),
    /// We are in a signal handler inside the lock: nothing may be looked at.
    Mine,
    /// It was not to be had.
    Busy,
}

impl<K: Kernel> Shim<K> {
    /// Over this kernel, with room for so many regions.
    pub fn new(
        kernel: K,
        settings: Settings,
        counters: &'static Counters,
        places: &'static mut [Node],
    ) -> Self {
        Shim {
            kernel,
            settings,
            zero_up_to: AtomicUsize::new(match settings.zero {
                Zero::Off => 0,
                Zero::UpTo(bytes) => bytes,
                Zero::Auto => usize::MAX,
            }),
            counters,
            lock: Lock::default(),
            late: Late::default(),
            table: UnsafeCell::new(Table::new(places)),
            leavers: Leavers::default(),
            left: AtomicU32::new(0),
            off: AtomicBool::new(settings.off),
            forked: AtomicBool::new(false),
            short: AtomicBool::new(false),
            calls: AtomicU32::new(0),
            looked: AtomicU64::new(0),
        }
    }

    /// Turns itself off for good: what is kept stays where it is.
    pub(crate) fn turn_off(&self) {
        self.off.store(true, Ordering::Relaxed);
        self.counters.off.set(1);
    }

    pub(crate) fn is_off(&self) -> bool {
        self.off.load(Ordering::Relaxed)
    }

    fn with(&self, taken: Taken, work: impl FnOnce(&mut Table)) {
        debug_assert_eq!(taken, Taken::Yes);
        // SAFETY: we hold the lock, and a handler in this thread that finds it held by us does not
        // look at the table. References do not outlive the call.
        let table = unsafe { &mut *self.table.get() };
        work(table);
        self.counters.dirty_bytes.set(table.dirty.bytes);
        self.counters.clean_bytes.set(table.clean.bytes);
        self.counters.keep_bytes.set(table.keep.bytes());
        self.release(table);
    }

    fn release(&self, table: &mut Table) {
        self.late.each(|range| table.forget(range, true));
        self.lock.release(&self.kernel);
    }

    /// Work that may be left undone.
    pub(crate) fn try_locked<T>(&self, work: impl FnOnce(&mut Table) -> T) -> Locked<T> {
        self.run(self.lock.try_take(&self.kernel), work)
    }

    /// Work that must be done. Where its holder is gone, the library turns itself off.
    pub(crate) fn locked<T>(&self, work: impl FnOnce(&mut Table) -> T) -> Locked<T> {
        let taken = self.lock.take(&self.kernel);
        if taken == Taken::Busy {
            self.turn_off();
        }
        self.run(taken, work)
    }

    fn run<T>(&self, taken: Taken, work: impl FnOnce(&mut Table) -> T) -> Locked<T> {
        match taken {
            Taken::Mine => Locked::Mine,
            Taken::Busy => {
                self.counters.passed_busy.one();
                Locked::Busy
            }
            Taken::Yes => {
                let mut out = None;
                self.with(taken, |table| out = Some(work(table)));
                match out {
                    Some(out) => Locked::Done(out),
                    None => Locked::Busy,
                }
            }
        }
    }

    /// Forgets what is known of the program's mappings in a range that it is about to change in a way
    /// that is not followed. From a handler inside the lock, its holder is told.
    pub(crate) fn forget(&self, range: Range) -> Result<(), Errno> {
        match self.locked(|table| table.forget(range, false)) {
            Locked::Done(()) | Locked::Busy => Ok(()),
            Locked::Mine if self.late.add(range) => Ok(()),
            // Seventeen changes by handlers within some hundred nanoseconds.
            Locked::Mine => Err(Errno::ENOMEM),
        }
    }

    /// How many bytes may be kept now.
    pub(crate) fn budget(&self) -> usize {
        if self.settings.strict || self.short.load(Ordering::Relaxed) {
            0
        } else {
            self.settings.cache
        }
    }

    pub(crate) fn keep_budget(&self) -> usize {
        if self.short.load(Ordering::Relaxed) {
            0
        } else {
            self.settings.keep
        }
    }

    /// Looks at memory pressure now and then, from calls that would keep something.
    pub(crate) fn look(&self) {
        let calls = self.calls.fetch_add(1, Ordering::Relaxed);
        if !calls.is_multiple_of(LOOK_EVERY_CALLS) {
            return;
        }
        let now = self.kernel.now();
        let last = self.looked.load(Ordering::Relaxed);
        if now.saturating_sub(last) < LOOK_EVERY_NS {
            return;
        }
        let mine = self
            .looked
            .compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed);
        if mine.is_err() {
            return;
        }
        let short = self.kernel.pressure() == Pressure::Some;
        if short && !self.short.swap(true, Ordering::Relaxed) {
            self.counters.pressure.one();
        }
        self.short.store(short, Ordering::Relaxed);
    }

    /// Unmaps what is kept, and leaves everything to the kernel from now on.
    pub fn retire(&self) {
        self.drain();
        self.turn_off();
    }

    /// Before fork(2): gives back what is kept, since its pages would be copied when they are used
    /// again, and takes the lock, so that the child finds the table whole.
    pub fn before_fork(&self) {
        if self.is_off() {
            return;
        }
        self.trim_to(0);
        if self.lock.take(&self.kernel) == Taken::Yes {
            self.lock.forking.store(1, Ordering::Relaxed);
        }
    }

    /// After fork(2), in the parent and in the child.
    pub fn after_fork(&self) {
        if self.lock.forking.swap(0, Ordering::Relaxed) == 1 {
            self.forked.store(true, Ordering::Relaxed);
            // SAFETY: this thread took the lock in `before_fork`; the child has its own copy.
            self.release(unsafe { &mut *self.table.get() });
        }
    }
}
