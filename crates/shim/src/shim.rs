//! The calls of the program, answered from what is kept or handed to the kernel.
//!
//! What is promised: a program that keeps to what Linux promises sees no difference, but that memory
//! which it has unmapped may still be there. Every call that changes what a range is goes through
//! here, or else the range is not known, and then the kernel is asked for everything.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use crate::counters::Counters;
use crate::keep;
use crate::kernel::{Errno, Kernel, Map, Pressure};
use crate::late::Late;
use crate::linux::*;
use crate::lock::{Lock, Taken};
use crate::nodes::Node;
use crate::region::{Kind, State};
use crate::settings::{Settings, Zero};
use crate::table::Table;
use crate::trim::Leavers;
use crate::{PAGE, Range};

/// How often memory pressure is looked at, at most, and after how many calls.
const LOOK_EVERY_NS: u64 = 100_000_000;
const LOOK_EVERY_CALLS: u32 = 64;

/// The library, over a kernel.
pub struct Shim<K> {
    pub(crate) kernel: K,
    pub(crate) settings: Settings,
    /// Up to which size MADV_DONTNEED is answered by zeroing, in bytes; MAX until it is measured.
    zero_up_to: AtomicUsize,
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

    fn is_off(&self) -> bool {
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
    fn forget(&self, range: Range) -> Result<(), Errno> {
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

    fn keep_budget(&self) -> usize {
        if self.short.load(Ordering::Relaxed) {
            0
        } else {
            self.settings.keep
        }
    }

    /// Looks at memory pressure now and then, from calls that would keep something.
    fn look(&self) {
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

    /// mmap(2).
    ///
    /// # Safety
    ///
    /// As mmap(2): with MAP_FIXED, whatever is there is gone.
    ///
    /// # Errors
    ///
    /// Those of mmap(2), and ENOMEM where a fixed address could not be made free.
    pub unsafe fn mmap(&self, map: &Map) -> Result<usize, Errno> {
        self.counters.mmap.one();
        if self.is_off() {
            // SAFETY: the caller's own call.
            return unsafe { self.kernel.mmap(map) };
        }
        let fixed = map.flags & (MAP_FIXED | MAP_FIXED_NOREPLACE) != 0;
        let Some(kind) = self.kind(map) else {
            if fixed && let Some(range) = Range::of(map.addr, map.len) {
                self.evict(range)?;
                self.forget(range)?;
            }
            // SAFETY: the caller's own call.
            let at = unsafe { self.map_anew(map) }?;
            self.forget_new(at, map.len);
            return Ok(at);
        };
        let Some(range) = Range::of(map.addr & !(PAGE - 1), map.len) else {
            // SAFETY: the caller's own call; the kernel refuses it.
            return unsafe { self.kernel.mmap(map) };
        };
        if fixed {
            self.evict(range)?;
            if map.flags & MAP_FIXED_NOREPLACE == 0 {
                self.forget(range)?;
            }
        } else if kind.is_read_write()
            && let Some(at) = self.serve(range, kind)
        {
            return Ok(at);
        }
        let mut map = *map;
        if map.len <= self.settings.prefault && kind.is_read_write() {
            map.flags |= MAP_POPULATE;
        }
        // SAFETY: the caller's own call, but for MAP_POPULATE, which only fills pages.
        let at = unsafe { self.map_anew(&map) }?;
        let new = Range {
            start: at,
            end: at + range.len(),
        };
        // SAFETY: the new mapping is nobody's yet, and the advice changes no content.
        let huge =
            kind.huge && unsafe { self.kernel.madvise(at, new.len(), MADV_HUGEPAGE) }.is_ok();
        // Without the lock it stays unknown, and what was known of it is gone since it was unmapped.
        let _ = self.try_locked(|table| table.note(new, Kind { huge, ..kind }));
        Ok(at)
    }

    /// Whatever is known of addresses that the kernel has just given out is out of date: they were
    /// unmapped by a raw system call.
    fn forget_new(&self, at: usize, len: usize) {
        if let Some(new) = Range::of(at, len) {
            let _ = self.locked(|table| table.forget(new, true));
        }
    }

    /// What a mapping is, if it is one that we may keep later.
    fn kind(&self, map: &Map) -> Option<Kind> {
        const KNOWN: i32 = MAP_PRIVATE
            | MAP_ANONYMOUS
            | MAP_NORESERVE
            | MAP_POPULATE
            | MAP_FIXED
            | MAP_FIXED_NOREPLACE;
        let plain = map.flags & !KNOWN == 0
            && map.flags & (MAP_PRIVATE | MAP_ANONYMOUS) == MAP_PRIVATE | MAP_ANONYMOUS;
        let prot = map.prot & !(PROT_READ | PROT_WRITE) == 0;
        (plain && prot).then_some(Kind {
            prot: map.prot as u8,
            noreserve: map.flags & MAP_NORESERVE != 0,
            huge: self.settings.huge > 0 && map.len >= self.settings.huge,
        })
    }

    /// A mapping of the kernel's. Where it has no room, what is kept is unmapped, and it is asked again.
    unsafe fn map_anew(&self, map: &Map) -> Result<usize, Errno> {
        // SAFETY: the caller's own call.
        match unsafe { self.kernel.mmap(map) } {
            Err(Errno::ENOMEM) if self.drain() => {
                // SAFETY: as before.
                unsafe { self.kernel.mmap(map) }
            }
            result => result,
        }
    }

    /// Something kept, zeroed. A hint of an address is taken if just that is kept.
    fn serve(&self, range: Range, kind: Kind) -> Option<usize> {
        let Locked::Done(found) =
            self.try_locked(|table| table.serve(range.len(), kind, range.start))
        else {
            return None;
        };
        let (at, state) = found?;
        if state == State::Dirty {
            // SAFETY: it was taken from what is kept, so it is nobody's until we return.
            unsafe { self.wipe(at) };
        }
        self.counters.mmap_served.one();
        Some(at.start)
    }

    /// munmap(2).
    ///
    /// # Safety
    ///
    /// As munmap(2): nobody uses the range from now on.
    ///
    /// # Errors
    ///
    /// Those of munmap(2).
    pub unsafe fn munmap(&self, addr: usize, len: usize) -> Result<(), Errno> {
        self.counters.munmap.one();
        let range = match Range::of(addr, len) {
            Some(range) if !self.is_off() => range,
            // SAFETY: the caller's own call.
            _ => return unsafe { self.kernel.munmap(addr, len) },
        };
        self.look();
        let budget = self.budget();
        enum Then {
            Kept,
            Pass,
            /// Some of it is kept already: the rest, piece by piece.
            Pieces,
        }
        let done = self.locked(|table| {
            let known = table.all_live(range, |region| region.kind.is_read_write());
            if known && range.len() <= budget && table.nodes.has_room(4) {
                table.keep_all(range);
                return Then::Kept;
            }
            if known {
                self.counters.passed_budget.one();
            } else {
                self.counters.passed_unknown.one();
            }
            table.forget(range, false);
            if table.kept_in(range).is_some() {
                Then::Pieces
            } else {
                Then::Pass
            }
        });
        match done {
            Locked::Done(Then::Kept) => {
                self.counters.munmap_kept.one();
                self.trim();
                Ok(())
            }
            // SAFETY: the caller's own call, less what is not the program's any more.
            Locked::Done(Then::Pieces) => unsafe { self.unmap_the_rest(range) },
            Locked::Done(Then::Pass) | Locked::Busy => {
                // SAFETY: the caller's own call.
                unsafe { self.kernel.munmap(addr, len) }
            }
            Locked::Mine => {
                self.forget(range)?;
                // SAFETY: the caller's own call.
                unsafe { self.kernel.munmap(addr, len) }
            }
        }
    }

    /// Unmaps what is not kept in the range: that was unmapped before, as far as the program knows.
    unsafe fn unmap_the_rest(&self, range: Range) -> Result<(), Errno> {
        let mut from = range.start;
        while from < range.end {
            let rest = Range {
                start: from,
                end: range.end,
            };
            let kept = match self
                .locked(|table| table.kept_in(rest).map(|id| table.nodes.get(id).range))
            {
                Locked::Done(kept) => kept,
                Locked::Mine | Locked::Busy => None,
            };
            let (end, next) = kept.map_or((range.end, range.end), |k| {
                (k.start.max(from), k.end.min(range.end))
            });
            if end > from {
                // SAFETY: within the caller's own range, and not kept.
                unsafe { self.kernel.munmap(from, end - from) }?;
            }
            from = next;
        }
        Ok(())
    }

    /// madvise(2).
    ///
    /// # Safety
    ///
    /// As madvise(2): MADV_DONTNEED and others take the content away.
    ///
    /// # Errors
    ///
    /// Those of madvise(2).
    pub unsafe fn madvise(&self, addr: usize, len: usize, advice: i32) -> Result<(), Errno> {
        let range = match Range::of(addr, len) {
            Some(range) if !self.is_off() => range,
            // SAFETY: the caller's own call.
            _ => return unsafe { self.kernel.madvise(addr, len, advice) },
        };
        match advice {
            MADV_DONTNEED => {
                self.counters.dontneed.one();
                // SAFETY: the caller says that nobody needs it.
                if range.len() <= self.zero_up_to() && unsafe { self.zero_in_place(range) } {
                    self.counters.dontneed_zeroed.one();
                    return Ok(());
                }
                self.evict(range)?;
            }
            MADV_FREE => {
                self.counters.free.one();
                if self.settings.drop_free && self.may_stay(range) {
                    self.counters.free_dropped.one();
                    return Ok(());
                }
                self.evict(range)?;
            }
            // These change no attribute of a mapping (mm/madvise.c, Linux 6.18).
            MADV_NORMAL | MADV_WILLNEED | MADV_COLD | MADV_PAGEOUT | MADV_POPULATE_READ
            | MADV_POPULATE_WRITE | MADV_COLLAPSE => self.evict(range)?,
            _ => {
                self.evict(range)?;
                self.forget(range)?;
            }
        }
        // SAFETY: the caller's own call.
        unsafe { self.kernel.madvise(addr, len, advice) }
    }

    /// Whether the range is the program's and known, and the budget allows it to stay in memory.
    fn may_stay(&self, range: Range) -> bool {
        self.look();
        let budget = self.keep_budget();
        let ask = || {
            self.try_locked(|table| {
                if !table.all_live(range, |region| region.kind.is_read_write()) {
                    self.counters.passed_unknown.one();
                    return Some(false);
                }
                if table.keep.admit(range, budget) {
                    return Some(true);
                }
                table.keep.drop(range);
                None
            })
        };
        match ask() {
            Locked::Done(Some(stay)) => stay,
            Locked::Done(None) => {
                self.counters.passed_budget.one();
                // Others may be in use again: for the next time.
                self.recount();
                false
            }
            Locked::Mine | Locked::Busy => false,
        }
    }

    /// Looks at some blocks that are counted as unused: those that hold something are in use, and those
    /// without memory cost nothing.
    fn recount(&self) {
        const AT_ONCE: usize = 8;
        const PAGES: usize = keep::BLOCK / PAGE;
        for _ in 0..AT_ONCE {
            let Locked::Done(Some(block)) = self.try_locked(|table| table.keep.next()) else {
                return;
            };
            let mut there = [0; PAGES];
            // SAFETY: it only looks. Pages that are not there are left alone: to read one would map the
            // page of zeros, and to write it then would cost a shootdown.
            if unsafe { self.kernel.mincore(block, &mut there) }.is_err() {
                there = [0; PAGES];
            }
            let mut pages = [0; PAGES];
            let mut count = 0;
            for (n, _) in there.iter().enumerate().filter(|(_, t)| **t & 1 != 0) {
                pages[count] = block.start + n * PAGE;
                count += 1;
            }
            if count == 0 || self.kernel.in_use(&pages[..count]) {
                let _ = self.try_locked(|table| table.keep.drop(block));
            }
        }
    }

    /// See [`Settings::zero`]. Measured when it is first needed: most programs never do.
    fn zero_up_to(&self) -> usize {
        let known = self.zero_up_to.load(Ordering::Relaxed);
        if known != usize::MAX {
            return known;
        }
        let found = crate::measure::zero_up_to(&self.kernel);
        self.zero_up_to.store(found, Ordering::Relaxed);
        found
    }

    /// Zeroes a range of the program's, if it is known and may stay.
    unsafe fn zero_in_place(&self, range: Range) -> bool {
        if self.settings.strict || !self.may_stay(range) {
            return false;
        }
        if self.forked.load(Ordering::Relaxed) && !self.kernel.is_own(range) {
            // Each page would be copied for it.
            let _ = self.try_locked(|table| table.keep.drop(range));
            return false;
        }
        // SAFETY: it is private, anonymous and writable, and the program says that nobody needs it.
        unsafe { self.wipe(range) };
        true
    }

    /// mprotect(2).
    ///
    /// # Safety
    ///
    /// As mprotect(2).
    ///
    /// # Errors
    ///
    /// Those of mprotect(2).
    pub unsafe fn mprotect(&self, addr: usize, len: usize, prot: i32) -> Result<(), Errno> {
        let range = match Range::of(addr, len) {
            Some(range) if !self.is_off() => range,
            // SAFETY: the caller's own call.
            _ => return unsafe { self.kernel.mprotect(addr, len, prot) },
        };
        let plain = prot & !(PROT_READ | PROT_WRITE) == 0;
        if !plain {
            self.evict(range)?;
            self.forget(range)?;
            // SAFETY: the caller's own call.
            return unsafe { self.kernel.mprotect(addr, len, prot) };
        }
        let folded = self.locked(|table| {
            if table.all_live(range, |region| i32::from(region.kind.prot) == prot) {
                return true;
            }
            // Four for the ends, and one for each region between them is there already.
            if table.nodes.has_room(4) {
                table.protect(range, prot as u8);
            } else {
                table.forget(range, false);
            }
            false
        });
        match folded {
            Locked::Done(true) => {
                self.counters.mprotect_folded.one();
                return Ok(());
            }
            Locked::Done(false) => {}
            Locked::Mine | Locked::Busy => self.forget(range)?,
        }
        self.evict(range)?;
        // SAFETY: the caller's own call.
        let done = unsafe { self.kernel.mprotect(addr, len, prot) };
        if done.is_err() {
            self.forget(range)?;
        }
        done
    }

    /// Any other call that may change what a range is: mlock(2), mbind(2), pkey_mprotect(2).
    ///
    /// # Errors
    ///
    /// Those of `call`.
    pub fn other<T>(
        &self,
        addr: usize,
        len: usize,
        call: impl FnOnce() -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        // They round the address down.
        let low = addr & !(PAGE - 1);
        if let Some(range) = Range::of(low, len.saturating_add(addr - low))
            && !self.is_off()
        {
            self.evict(range)?;
            self.forget(range)?;
        }
        call()
    }

    /// mremap(2).
    ///
    /// # Safety
    ///
    /// As mremap(2).
    ///
    /// # Errors
    ///
    /// Those of mremap(2).
    pub unsafe fn mremap(
        &self,
        old: usize,
        old_len: usize,
        new_len: usize,
        flags: i32,
        new: usize,
    ) -> Result<usize, Errno> {
        // SAFETY: the caller's own call.
        let call = || unsafe { self.kernel.mremap(old, old_len, new_len, flags, new) };
        if self.is_off() {
            return call();
        }
        let to_fixed = flags & MREMAP_FIXED != 0;
        if to_fixed && let Some(target) = Range::of(new, new_len) {
            self.evict(target)?;
            self.forget(target)?;
        }
        let (Some(from), Some(to)) = (Range::of(old, old_len), Range::of(old, new_len)) else {
            return call();
        };
        let plain = flags & !(MREMAP_MAYMOVE | MREMAP_FIXED) == 0;
        let kind = match self.try_locked(|table| table.kind_of(from)) {
            Locked::Done(kind) if plain => kind,
            _ => None,
        };
        if kind.is_some() && !to_fixed && to.end <= from.end {
            if to.end < from.end {
                // SAFETY: to shrink is to unmap the end.
                unsafe { self.munmap(to.end, from.end - to.end) }?;
            }
            return Ok(old);
        }
        // Also what is kept behind it, so that it can grow where it is.
        self.evict(Range {
            start: from.start,
            end: from.end.max(to.end),
        })?;
        self.forget(from)?;
        let mut result = call();
        if let (Err(Errno::EFAULT), Some(kind)) = (result, kind)
            && (flags & MREMAP_MAYMOVE != 0)
            && !to_fixed
        {
            // It lies in two mappings of the kernel's, which is our doing.
            // SAFETY: the caller's own range, which is known and the program's.
            result = unsafe { self.move_by_hand(from, to.len(), kind) };
        }
        if let Ok(at) = result {
            let now = Range {
                start: at,
                end: at + to.len(),
            };
            let _ = self.locked(|table| match kind {
                Some(kind) => table.note(now, kind),
                None => table.forget(now, true),
            });
        }
        result
    }

    /// Moves a region as mremap(2) would, by a new mapping.
    unsafe fn move_by_hand(&self, from: Range, len: usize, kind: Kind) -> Result<usize, Errno> {
        let noreserve = if kind.noreserve { MAP_NORESERVE } else { 0 };
        let map = Map {
            addr: 0,
            len,
            prot: PROT_READ | PROT_WRITE,
            flags: MAP_PRIVATE | MAP_ANONYMOUS | noreserve,
            fd: -1,
            offset: 0,
        };
        if !kind.is_read_write() {
            return Err(Errno::EFAULT);
        }
        // SAFETY: a new mapping; the old one is the program's, readable, and it moves.
        unsafe {
            let at = self.kernel.mmap(&map)?;
            self.kernel.copy(from.start, at, from.len().min(len));
            self.kernel.munmap(from.start, from.len())?;
            Ok(at)
        }
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
