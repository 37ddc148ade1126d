//! The calls of the program, answered from kept memory or handed to the kernel.
//!
//! The promise: a program that relies on no more than Linux promises sees no difference, but that memory which it has
//! unmapped may still be there. Every call that changes the kind of a range goes through here, or else the range is not
//! known, and then the kernel is asked for everything.

use core::sync::atomic::{AtomicBool as Hint, AtomicU64};

use crate::allowance::{Allowance, ResidentRoom};
use crate::anchors::AnchorFilter;
use crate::counters::Counters;
use crate::deferred::Deferred;
use crate::in_flight::MAX_UNMAPPING_THREADS;
use crate::kernel::{Errno, Kernel, Pressure};
use crate::leavers::Leavers;
use crate::lock::{Lock, Taken};
use crate::lock_crowd::LockCrowd;
use crate::nodes::Node;
use crate::offer_state::Offers;
use crate::once::Once;
use crate::other_threads::OtherThreads;
use crate::range_claims::RangeClaims;
use crate::scratch::Scratch;
use crate::settings::{Settings, ZeroLimit};
use crate::sync::{AtomicBool, AtomicU32, AtomicUsize, Guarded, Ordering};
use crate::table::Table;
use crate::{PAGE, Range};

/// How often memory pressure is looked at, at most, and after how many calls.
const LOOK_EVERY_NS: u64 = 100_000_000;
const LOOK_EVERY_CALLS: u32 = 64;
/// No more is ever kept than a sixteenth of the memory that is left of the machine's, or of a control group's: it stays
/// with a program that makes no call any more, and nobody can take memory then that is not offered. Nor is it more than
/// this where no bound of resident memory is set.
const MAX_KEPT_BYTES: usize = 128 << 20;
const FREE_MEMORY_PART: usize = 16;
/// Such a part of the room to the bound of resident memory may be taken before that memory is read again. With a fourth
/// Polars took up to 1.33 times the memory where it was to take 1.2, and twice as many shootdowns (demo/polars_demo.py,
/// decay 0). With a sixteenth it took as many as with an eighth, and churn half as many again
/// (bench/remedies/workload).
const ROOM_LEFT_PART: usize = 8;
/// Memory that was not needed for so long is given back.
const SPARE_EVERY_NS: u64 = 1_000_000_000;
/// The duration of a look for pinned pages, as long as none was made.
const PIN_LOOK_NS: usize = 50_000;
/// As if so much had been zeroed since the last look.
const NEVER_LOOKED: usize = 1 << 40;

/// A value of [`Shim::zero_up_to`] that is no size.
pub(crate) const NOT_MEASURED: usize = usize::MAX;

/// The library, over a kernel.
///
/// The fields that are written at a fork(2) come first, side by side: parent and child copy each page that they write
/// then, at a page fault each.
#[repr(C)]
pub struct Shim<K> {
    /// Up to which size MADV_DONTNEED is answered by zeroing, in bytes; [`NOT_MEASURED`] until a thread begins to.
    pub(crate) zero_up_to: AtomicUsize,
    pub(crate) counters: &'static Counters,
    pub(crate) lock: Lock,
    /// Ranges of which nothing is known any more, where the table could not be told: see [`Shim::forget_and_wait`].
    pub(crate) late: Deferred,
    pub(crate) leavers: Leavers,
    /// Changes, and is woken, whenever something has left.
    pub(crate) left: AtomicU32,
    /// So many threads wait for that; more where a handler has left its wait by siglongjmp(3).
    pub(crate) waiting: AtomicU32,
    /// Slots in the list of ranges being unmapped that are over, and the table is not told yet.
    pub(crate) over: AtomicU32,
    /// The same where it was not unmapped.
    pub(crate) stays: AtomicU32,
    /// The threads that unmap ranges that the table does not have any more, by their slot in its list; 0 is none. For
    /// who can't have the lock.
    pub(crate) unmapping: [AtomicUsize; MAX_UNMAPPING_THREADS],
    /// The thread that marks kept memory; 0 is none. Also for who can't have the lock.
    pub(crate) marking: AtomicUsize,
    /// Ranges that the kernel has mapped anew where the table could not be told.
    new: Deferred,
    /// Ranges that were marked where the table could not be told.
    pub(crate) marked: Deferred,
    /// Ranges that left to be marked, and were not, where the table could not be told.
    pub(crate) unmarked: Deferred,
    /// The table is to be told something ([`Shim::apply_news`]): of the lists `new`, `marked`, `unmarked` and `late`, of `over` and
    /// `stays`, or that this process is `orphaned`. Set once that is in its place.
    news: AtomicBool,
    /// This process is a child of a fork(2) in a handler: whatever other threads were about is to be given up.
    pub(crate) orphaned: AtomicBool,
    /// All calls go to the kernel, for good.
    off: AtomicBool,
    /// All memory is locked, pages may be in use where nobody sees it, or the kernel is not to be asked for more than the program
    /// asks for: nothing is kept from now on.
    retired: AtomicBool,
    /// Bytes of kept memory that is somebody else's, in whole or in part: the part that is still the library's stays in
    /// memory, for nothing.
    pub(crate) lost: AtomicUsize,
    pub(crate) others: OtherThreads,
    pub(crate) crowd: LockCrowd,
    /// A mapping of some size is to bring an anchor with it, perhaps: a hint, of which no order matters.
    pub(crate) anchors_are_wanted: Hint,
    /// The program has forked: pages may be shared with a child.
    pub(crate) forked: AtomicBool,
    /// Memory was short at the last look.
    short: AtomicBool,
    /// See [`Kernel::mapping_limit`]; MAX is none, 0 not looked at.
    bound: AtomicUsize,
    /// Calls that have come to [`Shim::look_now_and_then`], which looks at each 64th; it begins anew after the last number.
    pub(crate) calls: AtomicU32,
    /// When memory pressure was last looked at, by [`Threads::now_ns`](crate::Threads::now_ns).
    looked: AtomicU64,
    /// When memory that was not needed was given back.
    spare_looked: AtomicU64,
    /// Bytes that are left of the machine's memory or of a control group's, as last seen.
    pub(crate) free_memory: AtomicUsize,
    /// The word that is written into kept pages; 0 is not known yet.
    pub(crate) mark: AtomicUsize,
    /// The CPU time of the last look for pinned pages, and no more than twice that of the one before.
    pub(crate) pin_look_ns: AtomicUsize,
    /// By [`Threads::now_ns`](crate::Threads::now_ns), after one that found that some may be pinned.
    pub(crate) no_pin_look_before: AtomicU64,
    /// The program has let the kernel have pages by MADV_FREE.
    pub(crate) frees: AtomicBool,
    /// How the kernel took the offers.
    pub(crate) offers: Offers,
    /// Bytes zeroed in place since the last look for pinned pages.
    pub(crate) zeroed_since_look: AtomicUsize,
    /// Bytes that may still stay before resident memory is looked at again.
    slack: AtomicUsize,
    pub(crate) busy: RangeClaims,
    pub(crate) kernel: K,
    settings: Once<Settings>,
    pub(crate) anchored: AnchorFilter,
    /// Only with the lock.
    table: Guarded<Table>,
}

// SAFETY: the table is used with the lock only, and the leaving batch by one thread at a time (`Leavers`).
unsafe impl<K: Sync> Sync for Shim<K> {}

/// The result of work that needs the lock.
pub(crate) enum Locked<T> {
    Done(T),
    /// We are in a signal handler inside the lock, or a fork waits for us: nothing may be looked at.
    Mine,
    /// The lock was not to be had.
    Busy,
}

impl<K: Kernel> Shim<K> {
    /// The library over this kernel, with room for so many regions.
    pub fn new(
        kernel: K,
        settings: Settings,
        counters: &'static Counters,
        places: &'static mut [Node],
        scratch: &'static mut Scratch,
    ) -> Self {
        let shim = Shim::new_without_settings(kernel, counters, places, scratch);
        shim.start_with(settings);
        shim
    }

    /// The same, which only takes note of mappings until it is told its settings.
    pub fn new_without_settings(
        kernel: K,
        counters: &'static Counters,
        places: &'static mut [Node],
        scratch: &'static mut Scratch,
    ) -> Self {
        #[cfg(not(loom))]
        let [late, new, marked, unmarked] = scratch.late.each_ref().map(Deferred::new);
        #[cfg(loom)]
        let [late, new, marked, unmarked] = core::array::from_fn(|_| Deferred::default());
        let Scratch { blocks, batch, .. } = scratch;
        Shim {
            kernel,
            settings: Once::new(Settings::WATCH_ONLY),
            zero_up_to: AtomicUsize::new(0),
            counters,
            lock: Lock::default(),
            late,
            table: Guarded::new(Table::new(places, blocks)),
            leavers: Leavers::new(batch),
            left: AtomicU32::new(0),
            waiting: AtomicU32::new(0),
            over: AtomicU32::new(0),
            stays: AtomicU32::new(0),
            unmapping: core::array::from_fn(|_| AtomicUsize::new(0)),
            marking: AtomicUsize::new(0),
            new,
            marked,
            unmarked,
            news: AtomicBool::new(false),
            orphaned: AtomicBool::new(false),
            busy: RangeClaims::default(),
            off: AtomicBool::new(false),
            retired: AtomicBool::new(false),
            lost: AtomicUsize::new(0),
            others: OtherThreads::default(),
            crowd: LockCrowd::default(),
            anchored: AnchorFilter::default(),
            anchors_are_wanted: Hint::new(false),
            forked: AtomicBool::new(false),
            short: AtomicBool::new(false),
            bound: AtomicUsize::new(0),
            calls: AtomicU32::new(0),
            looked: AtomicU64::new(0),
            spare_looked: AtomicU64::new(0),
            free_memory: AtomicUsize::new(0),
            mark: AtomicUsize::new(0),
            pin_look_ns: AtomicUsize::new(PIN_LOOK_NS),
            no_pin_look_before: AtomicU64::new(0),
            frees: AtomicBool::new(false),
            offers: Offers::default(),
            zeroed_since_look: AtomicUsize::new(NEVER_LOOKED),
            slack: AtomicUsize::new(0),
        }
    }

    /// Tells it its settings, once: later ones are not heard.
    pub fn start_with(&self, settings: Settings) {
        let first = self.settings.try_fill(|own| {
            *own = settings;
            true
        });
        if !first {
            return;
        }
        if settings.off {
            self.turn_off();
        }
        let zero_up_to = match settings.zero {
            ZeroLimit::Off => 0,
            ZeroLimit::UpTo(bytes) => bytes.min(NOT_MEASURED - 1),
            ZeroLimit::Auto => NOT_MEASURED,
        };
        self.zero_up_to.store(zero_up_to, Ordering::Relaxed);
    }

    /// In the child of a fork(2): has the size measured again that a thread was measuring, which is gone. Where it was measured
    /// already, and was the least, it is measured once more, which does no harm.
    pub(crate) fn measure_again(&self) {
        if self.settings().zero == ZeroLimit::Auto {
            let (order, least) = (Ordering::Relaxed, crate::zero_cost::MIN_ZEROED_BYTES);
            let _ = self
                .zero_up_to
                .compare_exchange(least, NOT_MEASURED, order, order);
        }
    }

    pub(crate) fn settings(&self) -> &Settings {
        const IDLE: &Settings = &Settings::WATCH_ONLY;
        self.settings.get_filled().unwrap_or(IDLE)
    }

    /// The kernel that it runs over.
    pub fn kernel(&self) -> &K {
        &self.kernel
    }

    /// Turns itself off for good: kept memory stays where it is, as nothing that the table says is believed any more.
    pub fn turn_off(&self) {
        self.off.store(true, Ordering::SeqCst);
        self.counters.off.set(1);
    }

    /// Looked at by each call. Where it is off, whoever is at something since before that is waited for.
    pub(crate) fn is_off(&self) -> bool {
        let off = self.is_off_now();
        if off {
            self.wait_while_busy();
        }
        off
    }

    /// Whether the library is off. In a copy of the process that it did not see being made (a fork past the C library), it turns
    /// itself off here, for good.
    ///
    /// Whoever does something on the table's word asks once more right before it: a thread that turned the library off may map there
    /// without looking. Such a thread finds the lock taken, so that its holder sees here that it is off.
    pub(crate) fn is_off_now(&self) -> bool {
        if self.off.load(Ordering::SeqCst) {
            return true;
        }
        // Other threads may have changed the tables while they were copied, or have had the lock.
        let copy = self.kernel.is_unseen_copy();
        if copy {
            // The other threads that claimed ranges are not in the copy.
            self.busy
                .end_claims_of_others(self.kernel.thread_id(), |_| ());
            self.turn_off();
        }
        copy
    }

    /// Nothing more is kept, for as long as the program lives.
    pub(crate) fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Relaxed)
    }

    /// Works on the tables and gives the lock back, which this thread holds.
    pub(crate) fn work_and_release<T>(&self, work: impl FnOnce(&mut Table) -> T) -> T {
        // SAFETY: we hold the lock, and a handler in this thread that finds it held by us does not
        // look at the table. The reference does not outlive the call.
        let done = unsafe {
            self.table.with(|table| {
                let hear_news = |table: &mut Table| {
                    if self.news.load(Ordering::Acquire) {
                        self.apply_news(table);
                    }
                };
                hear_news(table);
                let done = work(table);
                hear_news(table);
                self.counters
                    .dirty_bytes
                    .set(table.kept_bytes() + table.leaving);
                self.counters.keep_bytes.set(table.keep.bytes());
                done
            })
        };
        self.lock.release(&self.kernel);
        done
    }

    /// Tells the table the news that others could not tell it, as the lock was held.
    #[cold]
    fn apply_news(&self, table: &mut Table) {
        // Before anything is looked at: news that come after that set it anew.
        self.news.swap(false, Ordering::AcqRel);
        if self.orphaned.load(Ordering::Relaxed) {
            self.give_up_others(table);
        }
        let new = self.new.take_each(|range| {
            table.note_mapped_anew(range);
        });
        let late = self.late.take_each(|range| {
            table.forget(range, true);
        });
        let marked = self.marked.take_each(|range| table.is_marked(range));
        let unmarked = self.unmarked.take_each(|range| table.is_not_marked(range));
        if !(new && late && marked && unmarked) {
            self.turn_off();
        }
        self.tell_over(table);
    }

    /// Notes a range in one of the lists that the next holder of the lock hears of. False if there is no room.
    pub(crate) fn defer_to_holder(&self, list: &Deferred, range: Range) -> bool {
        let done = list.add(range);
        self.note_news();
        done
    }

    /// Says that there is news for the table, once it is in its place.
    pub(crate) fn note_news(&self) {
        // An exchange, as a store would hide the flag of another thread: whoever reads the store need not see that
        // thread's entry.
        self.news.swap(true, Ordering::AcqRel);
    }

    /// Work that may be left undone.
    pub(crate) fn try_locked<T>(&self, work: impl FnOnce(&mut Table) -> T) -> Locked<T> {
        self.run_if_taken(self.lock.try_take(&self.kernel), work)
    }

    /// The same, where it is not even worth a wait.
    pub(crate) fn if_free(&self, work: impl FnOnce(&mut Table)) {
        if self.lock.take_free(&self.kernel) == Taken::Yes {
            self.work_and_release(work);
        }
    }

    /// Work that must be done. Where its holder is gone, the library turns itself off: so [`Locked::Busy`] says that it is off.
    pub(crate) fn locked<T>(&self, work: impl FnOnce(&mut Table) -> T) -> Locked<T> {
        let mut taken = self.lock.take(&self.kernel);
        if taken == Taken::Busy {
            self.turn_off();
            // Whoever gave it back before that does not know yet, and his work is in the table.
            taken = self.lock.try_take(&self.kernel);
        }
        self.run_if_taken(taken, work)
    }

    fn run_if_taken<T>(&self, taken: Taken, work: impl FnOnce(&mut Table) -> T) -> Locked<T> {
        match taken {
            Taken::Mine => Locked::Mine,
            Taken::Busy => {
                self.counters.passed_busy.count_one();
                Locked::Busy
            }
            Taken::Yes => Locked::Done(self.work_and_release(work)),
        }
    }

    /// Tells the table of a range that the kernel has just mapped, by `note`; later where it is not to be had: while
    /// another thread forks, and from a handler inside the lock. Where there are too many of those, a handler may be
    /// refused a range at an address that the thread below it has just unmapped.
    pub(crate) fn note_mapped(&self, range: Range, note: impl FnOnce(&mut Table)) {
        if !matches!(self.locked(note), Locked::Done(())) {
            self.defer_to_holder(&self.new, range);
        }
    }

    /// Forgets the program's mappings in a range that it is about to change in a way that is not followed, and waits
    /// for whoever is at it, who knew it. From a handler inside the lock, its holder is told.
    ///
    /// # Errors
    ///
    /// Those of [`Shim::wait_for_others`]; it is forgotten all the same.
    pub(crate) fn forget_and_wait(&self, range: Range) -> Result<(), Errno> {
        let me = self.kernel.thread_id();
        let done = self.locked(|table| {
            table.forget(range, false);
            self.busy.is_in_the_way(range, me)
        });
        // Before the wait: once the holder of the lock has heard of it, nobody begins with the range any more.
        if matches!(done, Locked::Mine) && !self.defer_to_holder(&self.late, range) {
            if self.lock.is_forking() {
                // Many threads, while one waits in a fork for a lock of another of them.
                self.late.add_all();
                self.note_news();
            } else {
                // So many changes by handlers within some hundred nanoseconds: the holder will not come back. A handler
                // has left by siglongjmp(3), and these are the program's calls after that.
                self.turn_off();
            }
        }
        match done {
            Locked::Done(false) => Ok(()),
            _ => self.wait_for_others(range),
        }
    }

    /// The same for whoever can't fail.
    pub(crate) fn forget(&self, range: Range) {
        let _ = self.forget_and_wait(range);
    }

    /// How many bytes may be kept now. 0 where nothing may: the settings say so, memory is short, mappings are limited, or the
    /// library has [retired](Shim::stop_keeping).
    pub(crate) fn kept_budget(&self) -> usize {
        let short = self.short.load(Ordering::Relaxed);
        // Where mappings are counted, kept ones are missing for calls that do not come through here: the C library's
        // own mappings.
        let counted = || self.known_mapping_limit() != usize::MAX;
        let no_more = self.is_retired() || self.has_lost_much();
        if self.settings().strict || short || no_more || counted() {
            0
        } else {
            let most = match self.settings().resident {
                0 => MAX_KEPT_BYTES,
                // Kept memory is bounded by the resident memory of the process with it.
                _ => usize::MAX,
            };
            let firm = if self.offers.are_over() {
                self.firm_budget()
            } else {
                usize::MAX
            };
            let cache = self.settings().cache.min(most).min(firm);
            cache.min(self.free_share())
        }
    }

    /// Whether so much of kept memory was mapped over that nothing more is to be kept: a program that does so past the
    /// library will do it again.
    fn has_lost_much(&self) -> bool {
        const MUCH: usize = 8 << 20;
        self.lost.load(Ordering::Relaxed) > MUCH
    }

    /// Memory was short at the last look.
    pub(crate) fn is_short(&self) -> bool {
        self.short.load(Ordering::Relaxed)
    }

    /// So many bytes may stay by how much memory is free; 0 until that was looked at.
    pub(crate) fn free_share(&self) -> usize {
        self.free_memory.load(Ordering::Relaxed) / FREE_MEMORY_PART
    }

    /// The program limits its own mappings by this call: kept memory must not count, so it goes before. And after it what other
    /// threads have kept meanwhile.
    pub fn with_limit_set<T>(&self, call: impl FnOnce() -> T) -> T {
        if !self.is_off() {
            self.unmap_all_kept();
        }
        let done = call();
        if !self.is_off() && !self.is_retired() && self.read_mapping_limit() != usize::MAX {
            self.unmap_all_kept();
        }
        done
    }

    /// Looked at when it is first asked for: most programs keep nothing.
    fn known_mapping_limit(&self) -> usize {
        match self.bound.load(Ordering::Relaxed) {
            0 => self.read_mapping_limit(),
            bound => bound,
        }
    }

    /// Asks the kernel; MAX is no limit. A limit of 0 is noted as 1, since 0 says that nobody has looked.
    fn read_mapping_limit(&self) -> usize {
        let bound = self.kernel.mapping_limit().unwrap_or(usize::MAX).max(1);
        self.bound.store(bound, Ordering::Relaxed);
        bound
    }

    /// How many bytes may stay with the program that it asked to be given back, where no bound of resident memory is set.
    pub(crate) fn keep_budget(&self) -> usize {
        if self.short.load(Ordering::Relaxed) {
            0
        } else {
            self.settings().keep.min(self.free_share())
        }
    }

    /// Takes room for so many bytes more to stay in memory, by how much of the process there is in memory now. None where
    /// there is no such bound, or that can't be told; `Over(0)` where memory is short.
    ///
    /// Memory that the program touches by itself is not seen, so the reading is used for a part of the distance to the
    /// bound only. Nor does a range of more than that part stay that is to be zeroed in place: near the bound the few
    /// that are large go, and the many that are small stay. A shootdown costs much the same for either.
    pub(crate) fn take_room(&self, more: usize) -> Option<ResidentRoom> {
        let room = self.room_for(more);
        if let Some(ResidentRoom::Enough) = room {
            // Two threads may take the same: it is an estimate.
            let slack = self.slack.load(Ordering::Relaxed);
            self.slack
                .store(slack.saturating_sub(more), Ordering::Relaxed);
        }
        room
    }

    /// The same, and takes none. It may read how much is in memory, and then notes for how much that reading is good.
    pub(crate) fn room_for(&self, more: usize) -> Option<ResidentRoom> {
        let bound = self.settings().resident;
        if bound == 0 {
            return None;
        }
        if self.short.load(Ordering::Relaxed) {
            return Some(ResidentRoom::Over(0));
        }
        if self.slack.load(Ordering::Relaxed) >= more {
            return Some(ResidentRoom::Enough);
        }
        let there = self.kernel.resident_bytes()?;
        let left = bound.saturating_sub(there);
        let part = left / ROOM_LEFT_PART;
        self.slack.store(part, Ordering::Relaxed);
        Some(match left {
            0 => ResidentRoom::Over(there - bound),
            _ if more > part => ResidentRoom::Little,
            _ => ResidentRoom::Enough,
        })
    }

    /// How much may be kept if `more` bytes are to be. With a bound of resident memory it takes room for them.
    pub(crate) fn allowance_for(&self, more: usize) -> Allowance {
        let budget = self.kept_budget();
        if budget == 0 {
            return Allowance::KEEP_NOTHING;
        }
        let may = match self.take_room(more) {
            // Memory that another thread gives back is not gone yet, and would be given back twice.
            Some(ResidentRoom::Over(over)) if !self.leavers.are_there() => {
                let kept = self.counters.dirty_bytes.get() as usize;
                Allowance::when_over(over, kept, more, self.settings().resident)
                    .limited_to(budget, more)
            }
            // With little room left, too: the excess is trimmed here.
            Some(ResidentRoom::Enough | ResidentRoom::Little | ResidentRoom::Over(_)) => {
                Allowance::of_budget(budget)
            }
            // There is no such bound, or it can't be told just now.
            None => Allowance::of_budget(budget.min(MAX_KEPT_BYTES)),
        };
        may.with_meanwhile(budget)
    }

    /// Whether work that may be left undone is to be left, as too many threads are at the lock. Then it looks as well:
    /// who is turned away here does not come to where that is done otherwise.
    pub(crate) fn is_crowded(&self) -> bool {
        let crowded = self.crowd.is_there(self.calls.load(Ordering::Relaxed));
        if crowded {
            self.look_now_and_then();
        }
        crowded
    }

    /// This is the child of a fork(2), which has one thread.
    pub(crate) fn forget_others(&self) {
        self.others.reset_in_child();
        self.crowd.reset_in_child();
        let _ = self.lock.take_use_counts();
    }

    /// Whether nothing of the library's is in a range, without the lock: nothing is kept or being given back or unmapped anywhere,
    /// and no anchor was ever put there. False where that would take long to tell.
    pub(crate) fn has_nothing_in(&self, range: Range) -> bool {
        const MOST_PAGES: usize = 64;
        range.len() <= MOST_PAGES * PAGE
            && self.counters.dirty_bytes.get() == 0
            && !self.leavers.are_there()
            && self
                .unmapping
                .iter()
                .all(|place| place.load(Ordering::SeqCst) == 0)
            && !self.anchored.may_have_any_in(range)
    }

    /// Whether giving back memory interrupts somebody.
    pub(crate) fn would_interrupt(&self) -> bool {
        self.others.are_working() || self.settings().lifetimes == 0
    }

    /// [`Shim::look_now_and_then`] for a call that is about so many bytes. Calls about many are few, and the memory
    /// that they keep matters more: each of them looks at the clock, and not only every 64th.
    pub(crate) fn look_for_bytes(&self, bytes: usize) {
        const LARGE: usize = 1 << 20;
        self.look_now_and_then();
        if bytes >= LARGE && !self.is_retired() && !self.lock.is_forking() {
            self.look_unless_recent();
        }
    }

    /// Looks at memory pressure and at other threads now and then, from calls that would keep something, or leave something to the
    /// kernel for time's sake.
    pub(crate) fn look_now_and_then(&self) {
        let calls = self.calls.fetch_add(1, Ordering::Relaxed);
        // While another thread forks nothing can be told of memory.
        if !calls.is_multiple_of(LOOK_EVERY_CALLS) || self.lock.is_forking() {
            return;
        }
        if self.is_retired() {
            if self.counters.dirty_bytes.get() > 0 {
                // The lock was not to be had when it was to go, or the kernel refused to unmap it.
                self.unmap_all_kept();
            }
            return;
        }
        self.others.note_caller(self.kernel.thread_id());
        // At 0 all work is done, whatever it costs.
        if self.settings().lifetimes > 0 {
            self.crowd
                .note_lock_use(calls, LOOK_EVERY_CALLS, self.lock.take_use_counts());
        }
        self.look_unless_recent();
    }

    /// Looks, unless the last look was just now.
    pub(crate) fn look_unless_recent(&self) {
        let now = self.kernel.now_ns();
        let last = self.looked.load(Ordering::Relaxed);
        // Where it seems to go back, another clock was asked: see `Threads::now_ns` of Linux.
        if now
            .checked_sub(last)
            .is_some_and(|gone| gone < LOOK_EVERY_NS)
        {
            return;
        }
        let mine = self
            .looked
            .compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed);
        if mine.is_err() {
            return;
        }
        if self.kernel.is_filtered() {
            if self.counters.dirty_bytes.get() > 0 {
                // It came unseen. Kept memory can't be told from memory that the program may have mapped over it, and
                // stays.
                self.stop_keeping();
            }
            return;
        }
        self.read_mapping_limit();
        self.others.sample_cpu_time(&self.kernel);
        self.crowd.end_old_pause(now);
        // Where another thread is at it, the last reading holds.
        if let Some(pressure) = self.kernel.memory_pressure() {
            let short = match pressure {
                Pressure::Some => true,
                Pressure::None(free) => {
                    self.free_memory.store(free, Ordering::Relaxed);
                    false
                }
            };
            let was = self.short.swap(short, Ordering::Relaxed);
            if short && !was {
                self.counters.pressure.count_one();
                self.trim_to(0);
            }
        }
        let (kept, budget) = (self.counters.dirty_bytes.get() as usize, self.kept_budget());
        if kept > budget {
            self.trim_to(budget);
        }
        // That may be more, by the memory that is free now.
        self.offer_if_too_firm();
        let last = self.spare_looked.load(Ordering::Relaxed);
        if now.saturating_sub(last) >= SPARE_EVERY_NS {
            self.spare_looked.store(now, Ordering::Relaxed);
            self.give_back_spare();
        }
    }

    /// Gives back memory that nobody needed since the last time.
    fn give_back_spare(&self) {
        let asked = self.try_locked(|table| (table.take_spare(), table.kept_bytes()));
        let Locked::Done((spare, kept)) = asked else {
            return;
        };
        self.trim_to(kept - spare);
    }

    /// Unmaps kept memory, and keeps nothing from now on: the library retires, for good. For calls after which kept memory
    /// would not be as new memory is, or not the program's alone: all memory is locked, pages are lent to the kernel, a filter
    /// of system calls comes. Mappings that the program makes at a certain address are still looked after until everything is
    /// gone.
    pub fn stop_keeping(&self) {
        self.retired.store(true, Ordering::SeqCst);
        if self.is_off() {
            // Kept memory stays: the program may have mapped over it, and nobody took note.
            return;
        }
        if self.is_mine() {
            // The lock is this thread's, below the signal handler that we are in: kept memory is unmapped by later
            // calls (`Shim::look_now_and_then`).
            return;
        }
        let _ = self.locked(|table| table.forget(Range::ALL, false));
        // Whoever begins to give back from now on gives back all.
        self.unmap_all_kept();
    }
}
