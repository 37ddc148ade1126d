//! Kept memory beyond a few megabytes is offered to the kernel.
//!
//! A program that has done with its memory may never call the library again, and nobody gives kept memory back then. So
//! all but a little is offered by MADV_FREE: where memory is short, of the machine or of the control group, the kernel
//! takes such a page without writing it anywhere (madvise(2)). A page that is written anew is not offered any more, and
//! each page is written before it serves.
//!
//! To offer pages interrupts whoever else runs the program, as to give them back does. So many ranges go by one call,
//! which interrupts once from Linux 6.16 on. And each page that was offered is dearer to use the next time, by about
//! half the price of a new one. So a few megabytes are not offered, and they serve first.
//!
//! Where the kernel has taken a page, nobody can tell any more whose its range is (see `proof`): it stays mapped, without memory.
//! So that this does not go on, no more is kept from then on than need not be offered.

use crate::kernel::Kernel;
use crate::leavers::{BATCH_REGIONS, Batch, BatchDeed};
use crate::linux::MADV_FREE;
use crate::nodes::NodeId;
use crate::proof::Ownership;
use crate::shim::{Locked, Shim};
use crate::sync::Ordering;
use crate::table::Table;
use crate::trim::MAX_BATCHES;
use crate::{Part, Range};

/// So many bytes need not be offered, where the settings do not say.
const DEFAULT_FIRM_BYTES: usize = 8 << 20;
/// And no more than this part of the memory that may be kept by how much is free ([`Shim::free_share`]).
const FIRM_PART_OF_SHARE: usize = 4;

impl<K: Kernel> Shim<K> {
    /// How many bytes of the kept memory need not be offered.
    pub(crate) fn firm_budget(&self) -> usize {
        let settings = self.settings();
        match settings.firm {
            None if settings.resident != 0 => usize::MAX,
            firm => firm
                .unwrap_or(DEFAULT_FIRM_BYTES)
                .min(self.free_share() / FIRM_PART_OF_SHARE),
        }
    }

    /// Whether so much of the kept memory is not offered that some of it should be.
    pub(crate) fn is_too_firm(&self, table: &Table) -> bool {
        table.firm_bytes() > self.firm_budget() && !self.offers.are_over()
    }

    /// Offers some of it then.
    pub(crate) fn offer_if_too_firm(&self) {
        if let Locked::Done(true) = self.try_locked(|table| self.is_too_firm(table)) {
            self.offer_oldest();
        }
    }

    /// Makes the offer that was due while this thread was giving back.
    pub(crate) fn offer_what_had_to_wait(&self) {
        if self.offers.wait.load(Ordering::SeqCst) {
            self.offers.wait.store(false, Ordering::SeqCst);
            self.offer_if_too_firm();
        }
    }

    /// Offers the oldest of the kept memory, until no more is left than half of the bytes that need not be offered:
    /// then the next time is some way off. Left to whoever gives back or offers already.
    #[cold]
    pub(crate) fn offer_oldest(&self) {
        /// Once more where another thread had to leave some to this one meanwhile; after that it is for the next call to do.
        const TURNS: u32 = 2;
        for _ in 0..TURNS {
            // Said before we look whether another thread is at it. That one looks here once it is done, so one of the two
            // sees the other.
            self.offers.wait.store(true, Ordering::SeqCst);
            if self.is_retired() || self.leavers.are_there() {
                return;
            }
            // Memory that is marked later is written, and would have to be offered once more.
            let fresh = self.try_locked(|table| table.fresh.bytes);
            if let Locked::Done(fresh) = fresh
                && self.pays_to_look(0, fresh)
            {
                self.look_for_pins();
            }
            let done = self.at_leavers(|batch| {
                self.offers.wait.store(false, Ordering::SeqCst);
                self.offer_by(batch);
            });
            if done.is_some() {
                if self.is_retired() {
                    // All kept memory went meanwhile, but for this thread's batch.
                    self.unmap_all_kept();
                }
                if !self.offers.wait.load(Ordering::SeqCst) {
                    return;
                }
            }
        }
    }

    /// Offers batch by batch, as the one thread that gives back or offers, down to half of the bytes that need not be offered.
    fn offer_by(&self, batch: &mut Batch) {
        if !self.have_left(batch) {
            return;
        }
        let left = self.firm_budget() / 2;
        for _ in 0..MAX_BATCHES {
            if !self.take_firm(batch, left) || batch.is_empty() || self.is_off_now() {
                return;
            }
            let ours = self.leave_out_foreign(batch, |id, range, fingerprint| {
                self.whose_by_reading(id, range, fingerprint)
            });
            if self.is_off_now() {
                // By a handler that has forked, in its child. They are leaving for good.
                return;
            }
            let done = self.offer_first(batch, ours);
            if done > 0 {
                self.counters.offers.count_one();
                self.counters.offered.add(done);
            }
            let told = batch.known == ours;
            batch.note_deed(BatchDeed::Offered, done);
            // A region that could not be told goes back to its shelf, and would be the next again.
            if !self.have_left(batch) || !told || self.offers.are_over() {
                return;
            }
        }
    }

    /// Whether they go one by one: before Linux 6.15 the kernel does not take many at once.
    pub(crate) fn is_one_by_one(&self) -> bool {
        !self.settings().batch || self.offers.alone.load(Ordering::Relaxed)
    }

    /// The same as [`Shim::ownership_of`], by reading memory that can be read without fear, as it is plain and all
    /// there.
    fn whose_by_reading(&self, id: NodeId, range: Range, fingerprint: u64) -> Ownership {
        let kind = self.try_locked(|table| table.nodes.get(id).kind);
        let readable = match kind {
            Locked::Done(kind) => {
                self.is_plain(range, kind) && self.kernel.all_there(range) == Some(true)
            }
            Locked::Mine | Locked::Busy => false,
        };
        if !readable {
            return self.ownership_of(range, fingerprint);
        }
        // SAFETY: it is plain memory, and none of its pages is a guard. It leaves, so that whoever changes it by a call that we see
        // waits. A thread that makes it unreadable in between, past the library, ends the program (docs/shim.md).
        let known = unsafe {
            match fingerprint {
                0 => self.kernel.has_marks(range, self.process_mark()),
                _ => self.kernel.fingerprint(range) == fingerprint,
            }
        };
        if known {
            Ownership::Ours
        } else {
            Ownership::Foreign
        }
    }

    /// Offers the first so many of the batch, which are ours. How many the kernel took, from the first on. Where it takes none of
    /// several they go one by one from now on; where it takes only some, nothing is offered any more.
    fn offer_first(&self, batch: &Batch, ours: usize) -> usize {
        let ranges = batch.first_parts(ours);
        let done = match ranges {
            [] => return 0,
            [Part { start, len }] => {
                // SAFETY: it was ours a moment ago, and the program has unmapped it. A thread that maps there in
                // between, by a system call that the library does not see, or a handler that does, in a child that it
                // forks, may lose the content that it has written by then.
                let offered = unsafe { self.kernel.madvise(*start, *len, MADV_FREE) };
                usize::from(offered.is_ok())
            }
            // SAFETY: as above.
            _ => unsafe { self.advise_each(ranges, MADV_FREE) },
        };
        if done == 0 && ours > 1 {
            self.offers.go_alone();
        } else if done < ours {
            self.offers.end_for_good();
        }
        done
    }

    /// Fills the batch with the oldest that is not offered yet, until no more than `left` bytes are not; false if the lock was
    /// not to be had.
    fn take_firm(&self, batch: &mut Batch, left: usize) -> bool {
        batch.clear();
        let most = if self.is_one_by_one() {
            1
        } else {
            BATCH_REGIONS
        };
        let done = self.locked_to_trim(|table| {
            // Nothing is to be kept any more: it goes.
            while batch.len() < most && table.firm_bytes() > left && !self.is_retired() {
                let (dirty, fresh) = (&table.dirty, &table.fresh);
                let Some(id) = dirty.oldest_firm().or(fresh.oldest_firm()) else {
                    break;
                };
                // As a whole: of two halves of which one is offered none would serve a mapping as large as it was.
                batch.add(id, &table.start_leaving(id));
            }
        });
        matches!(done, Locked::Done(()))
    }

    /// Kept memory is not as it was. Where it was offered the kernel has taken some of it, or somebody has mapped over
    /// it past the library: which of the two, nobody can tell. Memory that was not offered was mapped over, or
    /// unmapped.
    pub(crate) fn note_foreign(&self, bytes: usize, offered: bool) {
        self.counters.foreign.count_one();
        if offered {
            self.offers.end_for_good();
        } else {
            self.lost.fetch_add(bytes, Ordering::Relaxed);
        }
    }
}
