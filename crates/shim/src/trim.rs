//! Giving back what is kept: many regions by one system call and one shootdown.
//!
//! Regions leave in three steps: taken from their shelf with the lock, given back without it, and put
//! on the shelf of the clean ones, or forgotten, with it again. Whoever wants to map something there
//! meanwhile waits ([`Shim::evict`]); whoever unmaps a range around them leaves them out.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, Ordering};

use crate::kernel::{Errno, Kernel};
use crate::linux::MADV_DONTNEED;
use crate::nodes::{Id, NONE};
use crate::region::State;
use crate::shim::{Locked, Shim};
use crate::{PAGE, Part, Range};

/// In one call: as many as process_madvise(2) takes (UIO_MAXIOV), and flushes once for in most.
const BATCH: usize = 1024;
/// So many regions without memory are kept, and so much address space for each byte of the budget.
const CLEAN: usize = 1024;
const CLEAN_TIMES: usize = 16;
/// Once it is above the budget, what is kept is brought down to this part of it, so that the next trim
/// is some way off.
const DOWN_TO: (usize, usize) = (3, 4);
/// Whoever waits for a region that leaves looks so often, for so many ms each.
const WAITS: u32 = 200;
const WAIT_MS: u32 = 10;
/// In one mincore(2).
const PAGES: usize = 1024;
/// With more runs of pages that are not in memory than this, one call for all is cheaper.
const RUNS: usize = 8;

/// What leaves, in memory that is there: a signal stack may be small.
pub(crate) struct Leavers {
    taken: AtomicBool,
    batch: UnsafeCell<Batch>,
}

struct Batch {
    ids: [Id; BATCH],
    ranges: [Part; BATCH],
    count: usize,
}

impl Default for Leavers {
    fn default() -> Self {
        Leavers {
            taken: AtomicBool::new(false),
            batch: UnsafeCell::new(Batch {
                ids: [NONE; BATCH],
                ranges: [Part { start: 0, len: 0 }; BATCH],
                count: 0,
            }),
        }
    }
}

impl<K: Kernel> Shim<K> {
    /// Gives back what is above the budget.
    pub(crate) fn trim(&self) {
        let budget = self.budget();
        let kept = self.counters.dirty_bytes.get() as usize;
        if kept > budget {
            self.trim_to(budget / DOWN_TO.1 * DOWN_TO.0);
        }
        let clean = self.counters.clean_bytes.get() as usize;
        if clean > self.settings.cache.saturating_mul(CLEAN_TIMES) {
            self.unmap_clean(self.settings.cache.saturating_mul(CLEAN_TIMES), CLEAN);
        }
    }

    /// Gives back until no more than so many bytes are kept. Left to whoever is at it already.
    pub(crate) fn trim_to(&self, bytes: usize) {
        if self.leavers.taken.swap(true, Ordering::Acquire) {
            return;
        }
        // SAFETY: `taken` is ours, so nobody else has this reference; a handler finds it taken.
        let batch = unsafe { &mut *self.leavers.batch.get() };
        while self.take_oldest(batch, bytes) && batch.count > 0 {
            let done = self.give_back(&batch.ranges[..batch.count]);
            self.counters.trims.one();
            self.counters.trimmed.add(batch.count);
            let put = self.locked(|table| {
                for (id, ok) in batch.ids[..batch.count].iter().zip(0..) {
                    // A region that could not be given back has its memory: it stays dirty.
                    let state = if ok < done {
                        State::Clean
                    } else {
                        State::Dirty
                    };
                    table.nodes.get_mut(*id).state = state;
                    table.shelve(*id);
                }
            });
            self.somebody_left();
            if !matches!(put, Locked::Done(())) || done < batch.count {
                break;
            }
        }
        let crowded = matches!(
            self.try_locked(|table| table.clean.count > CLEAN),
            Locked::Done(true)
        );
        self.leavers.taken.store(false, Ordering::Release);
        if crowded {
            self.unmap_clean(usize::MAX, CLEAN / 2);
        }
    }

    /// Fills the batch with the oldest; false if the lock was not to be had.
    fn take_oldest(&self, batch: &mut Batch, bytes: usize) -> bool {
        batch.count = 0;
        let done = self.try_locked(|table| {
            while batch.count < BATCH && table.dirty.bytes > bytes {
                let Some(id) = table.dirty.oldest() else {
                    break;
                };
                let all = table.nodes.get(id).range;
                let (id, range) = table.leave(id, all);
                batch.ids[batch.count] = id;
                batch.ranges[batch.count] = range.into();
                batch.count += 1;
            }
        });
        matches!(done, Locked::Done(()))
    }

    /// How many of the ranges were given back, from the first on.
    fn give_back(&self, ranges: &[Part]) -> usize {
        let mut done = 0;
        if self.settings.batch {
            // SAFETY: they are kept: the program has unmapped them.
            let mut bytes = unsafe { self.kernel.give_back(ranges) }.unwrap_or(0);
            // A short return ends at the range that could not be done, or in it.
            while done < ranges.len() && bytes >= ranges[done].len {
                bytes -= ranges[done].len;
                done += 1;
            }
        }
        while done < ranges.len() {
            let range = ranges[done];
            // SAFETY: as above.
            let each = unsafe { self.kernel.madvise(range.start, range.len, MADV_DONTNEED) };
            if each.is_err() {
                break;
            }
            done += 1;
        }
        done
    }

    /// Unmaps clean regions, the oldest first, until no more than so many bytes and regions are left.
    fn unmap_clean(&self, bytes: usize, count: usize) {
        loop {
            let taken = self.try_locked(|table| {
                if table.clean.bytes <= bytes && table.clean.count <= count {
                    return None;
                }
                let id = table.clean.oldest()?;
                let all = table.nodes.get(id).range;
                Some(table.leave(id, all))
            });
            let Locked::Done(Some((id, range))) = taken else {
                return;
            };
            if self.unmap_leaver(id, range).is_err() {
                return;
            }
        }
    }

    /// Unmaps a region that leaves, and forgets it.
    fn unmap_leaver(&self, id: Id, range: Range) -> Result<(), Errno> {
        // SAFETY: it is kept: the program has unmapped it, and nobody else may take it now.
        let done = unsafe { self.kernel.munmap(range.start, range.len()) };
        let _ = self.locked(|table| {
            if done.is_ok() {
                table.nodes.remove(id);
            } else {
                // Too many mappings, say: it can be served still.
                table.nodes.get_mut(id).state = State::Dirty;
                table.shelve(id);
            }
        });
        self.somebody_left();
        done
    }

    fn somebody_left(&self) {
        self.left.fetch_add(1, Ordering::Release);
        self.kernel.wake(&self.left);
    }

    /// Unmaps what is kept in a range, so that it is to the kernel what it is to the program.
    ///
    /// # Errors
    ///
    /// ENOMEM where something there is being given back and does not come to an end: for a second by
    /// another thread, or in the thread that this signal handler interrupted.
    pub(crate) fn evict(&self, range: Range) -> Result<(), Errno> {
        for _ in 0..WAITS {
            let seen = self.left.load(Ordering::Acquire);
            let found = self.locked(|table| {
                let id = table.kept_in(range)?;
                if table.nodes.get(id).state == State::Leaving {
                    return Some(None);
                }
                // Without room for the rests they would be lost: all of it goes then.
                let whole = table.nodes.get(id).range;
                let part = if table.nodes.has_room(2) {
                    range
                } else {
                    whole
                };
                Some(Some(table.leave(id, part)))
            });
            match found {
                // Nothing is kept there. (A handler inside the lock can't look: where a range is
                // replaced, its holder forgets it.)
                Locked::Done(None) | Locked::Mine | Locked::Busy => return Ok(()),
                Locked::Done(Some(None)) => self.kernel.sleep(&self.left, seen, WAIT_MS),
                Locked::Done(Some(Some((id, part)))) => {
                    self.counters.evicted.one();
                    self.unmap_leaver(id, part)?;
                }
            }
        }
        Err(Errno::ENOMEM)
    }

    /// Unmaps all that is kept. True if there was something.
    pub(crate) fn drain(&self) -> bool {
        let before = self.counters.dirty_bytes.get() + self.counters.clean_bytes.get();
        self.trim_to(0);
        self.unmap_clean(0, 0);
        before > 0
    }

    /// Makes a range read as zeros, without a shootdown where its pages are in memory, and without
    /// filling those that are not.
    ///
    /// # Safety
    ///
    /// It is mapped, private, anonymous and writable, and nobody uses it meanwhile.
    pub(crate) unsafe fn wipe(&self, range: Range) {
        let mut start = range.start;
        while start < range.end {
            let end = range.end.min(start + PAGES * PAGE);
            // SAFETY: the caller's range.
            unsafe { self.wipe_part(Range { start, end }) };
            start = end;
        }
    }

    unsafe fn wipe_part(&self, part: Range) {
        let mut vector = [0_u8; PAGES];
        let pages = &mut vector[..part.len() / PAGE];
        // SAFETY: the caller's range, in whole pages.
        if unsafe { self.kernel.mincore(part, pages) }.is_err() {
            // SAFETY: the caller's range.
            unsafe { self.kernel.zero(part) };
            return;
        }
        let runs = 1 + pages.windows(2).filter(|w| (w[0] ^ w[1]) & 1 != 0).count();
        let mut at = 0;
        while at < pages.len() {
            let here = pages[at] & 1 != 0;
            let len = pages[at..]
                .iter()
                .take_while(|p| (**p & 1 != 0) == here)
                .count();
            let len = if runs > RUNS { pages.len() } else { len };
            let run = Range {
                start: part.start + at * PAGE,
                end: part.start + (at + len) * PAGE,
            };
            // A page that is not in memory is a hole, which is zero, or swapped out, which is not, and
            // mincore(2) does not say which. To give either back takes no shootdown: nothing is mapped.
            // SAFETY: the caller's range; either call leaves it zero.
            unsafe {
                let fill = here && runs <= RUNS;
                if fill
                    || self
                        .kernel
                        .madvise(run.start, run.len(), MADV_DONTNEED)
                        .is_err()
                {
                    self.kernel.zero(run);
                }
            }
            at += len;
        }
    }
}
