//! Making memory read as zeros again, and finding out how much of it is used.

use crate::kernel::Kernel;
use crate::linux::MADV_DONTNEED;
use crate::region::Kind;
use crate::shim::Shim;
use crate::sync::Ordering;
use crate::table::HabitOf;
use crate::{PAGE, Range};

/// One call of mincore(2) is asked for at most so many pages.
const PAGES_PER_MINCORE: usize = if cfg!(loom) { 8 } else { 1024 };
/// A hole takes a call that finds nothing, some 0.4 us; to give back all takes a shootdown, and each page that was in
/// memory a fault of as much when it is used again. With more holes than these in one part all of it is given back.
const MAX_HOLES: usize = 4;
/// Dense is a range to be kept of which so many eighths are in memory, for all of it will be then;
const DENSE_KEPT_EIGHTHS: usize = 7;
/// and one to be zeroed in place of which so many are, for the rest stays as it is. Vectors grow by doubling, and some of
/// each is never used.
const DENSE_ZEROED_EIGHTHS: usize = 4;

/// A range that is zeroed in place where nobody would be interrupted has to save this many bytes of faults at least, of
/// one to three microseconds a page, to make up for the proof, of five.
pub(crate) const MIN_SAVED_ALONE_BYTES: usize = 4 * PAGE;

/// How a range was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RangeDensity {
    /// Enough of it is in memory, and has something in it, that the next use of it pays for the work.
    Dense,
    /// Too little of it is, it has too many holes, some of it may be the page of zeros, or that can't be told.
    Thin,
    /// Its pages in memory are zero, as far as was looked, and none of it is the page of zeros: it was zeroed in place,
    /// and not used since.
    Idle,
    /// None of it is in memory, as far as was looked.
    None,
}

impl<K: Kernel> Shim<K> {
    /// Whether to write these pages would copy them, as a child of fork(2) has them too.
    pub(crate) fn is_shared(&self, range: Range) -> bool {
        self.forked.load(Ordering::Relaxed) && !self.kernel.is_own(range)
    }

    /// How a range was used, by some of its pages. A page that was only read is the page of zeros, which is
    /// everybody's: to write it would be a shootdown for each page.
    pub(crate) fn use_of(&self, of: HabitOf, range: Range, kind: Kind) -> RangeDensity {
        /// Of a large range so many windows are looked at, of so many pages.
        const SAMPLED_WINDOWS: usize = 8;
        const WINDOW_PAGES: usize = PAGES_PER_MINCORE / SAMPLED_WINDOWS;
        const SAMPLED_PAGES: usize = 8;
        let least_eighths = match of {
            HabitOf::Mappings => DENSE_KEPT_EIGHTHS,
            HabitOf::GivenBack => DENSE_ZEROED_EIGHTHS,
        };
        let pages = range.len() / PAGE;
        let (windows, window) = if pages <= PAGES_PER_MINCORE {
            (1, pages)
        } else {
            (SAMPLED_WINDOWS, WINDOW_PAGES)
        };
        // Elsewhere each time: a program may write every so manieth page.
        let turn = (self.calls.load(Ordering::Relaxed) as usize).wrapping_mul(0x9e37_79b9);
        let mut there = 0;
        let mut samples = [0; SAMPLED_PAGES];
        let mut count = 0;
        let mut vector = [0_u8; PAGES_PER_MINCORE];
        for n in 0..windows {
            let start = range.start + n * (pages / windows) * PAGE;
            let end = start + window * PAGE;
            let vector = &mut vector[..window];
            // SAFETY: it only looks.
            if unsafe { self.kernel.mincore(Range { start, end }, vector) }.is_err() {
                return RangeDensity::Thin;
            }
            if holes_in(vector) > MAX_HOLES {
                return RangeDensity::Thin;
            }
            there += vector.iter().filter(|page| **page & 1 != 0).count();
            // Only of those in memory: to look at another would map the page of zeros there.
            let wanted = (SAMPLED_PAGES / windows).min(window);
            for k in 0..wanted {
                let from = (k * window / wanted + turn % (window / wanted)) % window;
                let mut around = (from..window).chain(0..from);
                if let Some(page) = around.find(|page| vector[*page] & 1 != 0) {
                    samples[count] = start + page * PAGE;
                    count += 1;
                }
            }
        }
        if there == 0 {
            return RangeDensity::None;
        }
        let in_memory = there * (pages / (windows * window));
        // Memory that serves is zeroed as a whole.
        let pays = |used: usize, count: usize| match of {
            HabitOf::Mappings => used * 2 >= count,
            HabitOf::GivenBack => is_worth_zeroing(in_memory, used, count, self.would_interrupt()),
        };
        if there * 8 < windows * window * least_eighths || !pays(1, 1) {
            return RangeDensity::Thin;
        }
        let samples = &samples[..count];
        let mut used = self.kernel.count_used(samples);
        // A page in use need not have anything where that looks. To look at all of a page its memory is read as it is,
        // so it has to be plain.
        if used.is_some_and(|used| !pays(used, count)) {
            // SAFETY: it can be read until we say that we are done, and the program has it still.
            let read = || unsafe { self.kernel.count_not_zero(samples) };
            used = self.if_plain(range, kind, read).or(used);
        }
        match used {
            Some(used) if used == count => RangeDensity::Dense,
            Some(used) if pays(used, count) && !self.kernel.has_page_of_zeros(range) => {
                RangeDensity::Dense
            }
            Some(0) if of == HabitOf::GivenBack && !self.kernel.has_page_of_zeros(range) => {
                RangeDensity::Idle
            }
            _ => RangeDensity::Thin,
        }
    }

    /// Reads a range of the program's if it is plain. Nobody changes it meanwhile.
    fn if_plain<T>(&self, range: Range, kind: Kind, read: impl FnOnce() -> T) -> Option<T> {
        let begun = self.try_locked(|table| {
            let known = table.all_live(range, |region| region.kind.is_read_write());
            known.then(|| self.begin_to_use(range)).flatten()
        });
        let read_if_plain = || self.is_plain(range, kind).then(read);
        self.use_if_begun(begun, read_if_plain).flatten()
    }

    /// How many pages of a range are in memory; of a large one, of those that it begins with. 0 where that can't be told.
    pub(crate) fn count_in_memory(&self, range: Range) -> usize {
        let mut vector = [0_u8; PAGES_PER_MINCORE];
        let count = PAGES_PER_MINCORE.min(range.len() / PAGE);
        let end = range.start + count * PAGE;
        let first = Range { end, ..range };
        // SAFETY: it only looks.
        let looked = unsafe { self.kernel.mincore(first, &mut vector[..count]) };
        if looked.is_err() {
            return 0;
        }
        vector.iter().filter(|page| **page & 1 != 0).count()
    }

    /// Makes a range read as zeros, without a shootdown where its pages are in memory, and without
    /// filling those that are not, and says how many pages had something in them, at most. None if that is not to be had, or not
    /// worth it: some of it may be done then, and the caller has the kernel give back all of it.
    ///
    /// # Safety
    ///
    /// It is private, anonymous and writable, and nobody uses it meanwhile.
    pub(crate) unsafe fn wipe_range(&self, range: Range) -> Option<usize> {
        let mut used = 0;
        let mut start = range.start;
        while start < range.end {
            let end = range.end.min(start + PAGES_PER_MINCORE * PAGE);
            // SAFETY: the caller's range.
            used += unsafe { self.wipe_part(Range { start, end }) }?;
            start = end;
        }
        Some(used)
    }

    /// The same for no more than [`PAGES_PER_MINCORE`] pages.
    unsafe fn wipe_part(&self, part: Range) -> Option<usize> {
        let mut vector = [0_u8; PAGES_PER_MINCORE];
        let pages = &mut vector[..part.len() / PAGE];
        // SAFETY: it only looks.
        if unsafe { self.kernel.mincore(part, pages) }.is_err() {
            return None;
        }
        let holes = holes_in(pages);
        if holes > MAX_HOLES {
            return None;
        }
        // Asked of them alone, and in one look: another thread may read a page meanwhile, so that it is not swapped out
        // any more, and in memory with its content.
        let holes_are_zero = holes > 0
            && runs_at(part.start, pages)
                .all(|(range, there)| there || self.kernel.has_nothing(range));
        // To give back what is no hole would then flush, as said below.
        if holes > 0 && !holes_are_zero && self.leavers.are_there() {
            return None;
        }
        let mut used = 0;
        for (range, there) in runs_at(part.start, pages) {
            // A page that is not in memory is a hole, which is zero, a guard, which stays, or swapped out, which is not
            // zero; and mincore(2) does not say which. To give it back takes no shootdown, as nothing is mapped, but
            // where other threads give back meanwhile: the kernel then flushes after each call, even one that finds
            // nothing (mm_tlb_flush_nested, mm/mmu_gather.c, Linux 6.18).
            // SAFETY: the caller's range; either call leaves it zero.
            let done = unsafe {
                if !there && holes_are_zero {
                    true
                } else if !there {
                    let advice = MADV_DONTNEED;
                    self.kernel
                        .madvise(range.start, range.len(), advice)
                        .is_ok()
                } else {
                    // Many that are zero already may be the page of zeros, which is everybody's: to write it would be a shootdown for each.
                    let zeros = self.kernel.clear_used(range);
                    let count = range.len() / PAGE;
                    used += count - zeros;
                    zeros <= count / 2 || !self.kernel.has_page_of_zeros(range)
                }
            };
            if !done {
                return None;
            }
        }
        Some(used)
    }

    /// Whether it was worth it to zero a range of few pages, of which so many had something in them.
    pub(crate) fn was_worth_zeroing(&self, pages: usize, used: usize) -> bool {
        self.settings().lifetimes == 0
            || if self.others.are_working() {
                used * 2 >= pages
            } else {
                used * PAGE >= MIN_SAVED_ALONE_BYTES
            }
    }
}

/// Whether to zero so many pages in place takes less time than to give them back, where of `samples` of them `used` are in
/// use, and will be again. In tenths of a microsecond, roughly.
///
/// By measurement on Linux 6.18 with two CPUs, on a virtual machine: tests/wild's jemalloc-decay-0, which writes 256
/// bytes of each block, took 1.12 times the CPU time where a quarter in use, or few pages, were enough, and 0.96 with
/// this; and programs that use all of their blocks (bench/remedies/workload, demo/polars_demo.py) took the same.
fn is_worth_zeroing(in_memory: usize, used: usize, samples: usize, interrupts: bool) -> bool {
    /// A page in use that is given back is cleared and faulted in anew.
    const FAULT_COST: usize = 10;
    /// Each that is in memory is read or written, and is hardly ever in the caches.
    const READ_COST: usize = 2;
    /// The proof of a range's kind, and the look at how it was used.
    const PROOF_COST: usize = 80;
    /// The interrupt of another CPU, and the wait for it.
    const SHOOTDOWN_COST: usize = 40;
    let interrupt = if interrupts { SHOOTDOWN_COST } else { 0 };
    let saved = used * in_memory * FAULT_COST + interrupt * samples;
    saved >= samples * (in_memory * READ_COST + PROOF_COST)
}

/// Pages one after the other that are all in memory, or all not.
fn runs_of(pages: &[u8]) -> impl Iterator<Item = &[u8]> {
    pages.chunk_by(|a, b| a & 1 == b & 1)
}

/// The same as ranges of memory that begins at `start`, and whether they are in memory.
fn runs_at(start: usize, pages: &[u8]) -> impl Iterator<Item = (Range, bool)> {
    runs_of(pages).scan(start, |next, run| {
        let start = *next;
        *next = start + run.len() * PAGE;
        Some((Range { start, end: *next }, run[0] & 1 != 0))
    })
}

fn holes_in(pages: &[u8]) -> usize {
    runs_of(pages).filter(|run| run[0] & 1 == 0).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Check where zeroing begins to pay: from few pages on where all are in use, from more where there is nobody to interrupt,
    /// from many where a quarter is, and never where next to nothing is.
    #[test]
    fn worth() {
        let least =
            |used, interrupts| (1..4096).find(|n| is_worth_zeroing(*n, used, 8, interrupts));
        assert_eq!(least(8, true), Some(5));
        assert_eq!(least(8, false), Some(10));
        assert_eq!(least(4, true), Some(14));
        assert_eq!(least(2, true), Some(80));
        assert_eq!(least(1, true), None);
    }

    proptest! {
        /// Check that what is used more is worth no less, and that where it pays more pages as dense pay too.
        #[test]
        fn more_is_worth_more(pages in 1..5000_usize, used in 0..8_usize, interrupts: bool) {
            let worth = is_worth_zeroing(pages, used, 8, interrupts);
            prop_assert!(!worth || is_worth_zeroing(pages, used + 1, 8, interrupts));
            prop_assert!(!worth || used < 2 || is_worth_zeroing(pages + 1, used, 8, interrupts));
        }
    }
}
