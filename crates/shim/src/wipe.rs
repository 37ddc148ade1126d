//! Making memory read as zeros again.

use crate::kernel::{Errno, Kernel};
use crate::linux::MADV_DONTNEED;
use crate::shim::Shim;
use crate::sync::Ordering;
use crate::{PAGE, Range};

/// In one mincore(2).
const PAGES: usize = if cfg!(loom) { 8 } else { 1024 };
/// A hole takes a call that finds nothing, some 0.4 us; to give back all takes a shootdown, and each page that was in
/// memory a fault of as much when it is used again. So many holes are never too many, nor is one to `PAGES_A_HOLE`
/// pages that are in memory.
const HOLES: usize = 4;
const PAGES_A_HOLE: usize = 2;

impl<K: Kernel> Shim<K> {
    /// Whether to write these pages would copy them, as a child of fork(2) has them too.
    pub(crate) fn is_shared(&self, range: Range) -> bool {
        self.forked.load(Ordering::Relaxed) && !self.kernel.is_own(range)
    }

    /// As [`Shim::wipe`]; pages that are shared with a child are given back and not copied.
    ///
    /// # Safety
    ///
    /// As for `wipe`.
    pub(crate) unsafe fn wipe_unshared(&self, range: Range) -> bool {
        // SAFETY: the caller's range; either leaves it zero.
        unsafe {
            (self.is_shared(range)
                && self
                    .kernel
                    .madvise(range.start, range.len(), MADV_DONTNEED)
                    .is_ok())
                || self.wipe(range)
        }
    }

    /// Makes a range read as zeros, without a shootdown where its pages are in memory, and without
    /// filling those that are not. False if it is not mapped, which is the doing of a system call that
    /// did not come through here; some of it may be done then.
    ///
    /// # Safety
    ///
    /// It is private, anonymous and writable, and nobody uses it meanwhile.
    pub(crate) unsafe fn wipe(&self, range: Range) -> bool {
        let mut start = range.start;
        while start < range.end {
            let end = range.end.min(start + PAGES * PAGE);
            // SAFETY: the caller's range.
            if !unsafe { self.wipe_part(Range { start, end }) } {
                return false;
            }
            start = end;
        }
        true
    }

    unsafe fn wipe_part(&self, part: Range) -> bool {
        let mut vector = [0_u8; PAGES];
        let pages = &mut vector[..part.len() / PAGE];
        // SAFETY: it only looks.
        match unsafe { self.kernel.mincore(part, pages) } {
            Ok(()) => {}
            // It is not mapped.
            Err(Errno::ENOMEM) => return false,
            // Which pages are in memory is not to be had: then all will be.
            Err(_) => pages.fill(1),
        }
        let holes = pages
            .chunk_by(|a, b| a & 1 == b & 1)
            .filter(|run| run[0] & 1 == 0)
            .count();
        let resident = pages.iter().filter(|page| **page & 1 != 0).count();
        // Not while another thread gives back: the kernel then flushes after each call, even one that finds nothing
        // (mm_tlb_flush_nested, mm/mmu_gather.c, Linux 6.18).
        let more = if self.leavers.are_there() {
            0
        } else {
            resident / PAGES_A_HOLE
        };
        let each = holes <= HOLES + more;
        let mut at = 0;
        while at < pages.len() {
            let here = pages[at] & 1 != 0;
            let len = pages[at..]
                .iter()
                .take_while(|p| (**p & 1 != 0) == here)
                .count();
            let len = if each { len } else { pages.len() };
            let run = Range {
                start: part.start + at * PAGE,
                end: part.start + (at + len) * PAGE,
            };
            // A page that is not in memory is a hole, which is zero, or swapped out, which is not, and
            // mincore(2) does not say which. To give either back takes no shootdown: nothing is mapped.
            // SAFETY: the caller's range; either call leaves it zero.
            unsafe {
                let give_back_to = |end| {
                    let len = end - run.start;
                    self.kernel.madvise(run.start, len, MADV_DONTNEED)
                };
                let fill = here && each;
                if fill || give_back_to(run.end).is_err() {
                    let zeros = self.kernel.clear(run);
                    // What was only read has the page of zeros, which is everybody's: to write there later would copy
                    // it, and that is a shootdown for each page. There may be more of that, so the rest goes too: one
                    // shootdown for all.
                    if zeros > run.len() / PAGE / 2
                        && !self.kernel.is_own(run)
                        && give_back_to(part.end).is_ok()
                    {
                        return true;
                    }
                }
            }
            at += len;
        }
        true
    }
}
