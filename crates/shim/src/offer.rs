//! What is kept beyond a few megabytes is offered to the kernel.
//!
//! A program that has done with its memory may never call the library again, and nobody gives back then what is kept for it. So
//! all but a little is offered by MADV_FREE: the kernel takes such a page as soon as memory is short, of the machine or of the
//! control group, and before it takes any that somebody uses (madvise(2)). What is written anew is not offered any more; and
//! before it serves each page is.
//!
//! To offer a page interrupts whoever else runs the program, as to give it back does. So many ranges go by one call, which
//! interrupts once from Linux 6.16 on. And it takes a third of the time of giving it back and having it anew: what is kept last
//! is not offered, as the next mapping is served with that.
//!
//! Where the kernel has taken a page, nobody can tell any more whose its range is (see `proof`): it stays mapped, without memory,
//! and from then on no more is kept than need not be offered.

use crate::kernel::Kernel;
use crate::linux::MADV_FREE;
use crate::proof::Whose;
use crate::shim::{Locked, Shim};
use crate::sync::Ordering;
use crate::table::Table;
use crate::trim::{BATCHES, Batch, Did};
use crate::{Part, Range};

/// What need not be offered, where the settings do not say.
const FIRM: usize = 8 << 20;
/// Of what may be kept, as of free memory, such a part need not be offered at most.
const OF_SHARE: usize = 4;

impl<K: Kernel> Shim<K> {
    /// How many bytes of what is kept need not be offered.
    pub(crate) fn firm(&self) -> usize {
        let settings = self.settings();
        match settings.firm {
            None if settings.resident != 0 => usize::MAX,
            firm => firm.unwrap_or(FIRM).min(self.free_share() / OF_SHARE),
        }
    }

    /// Whether more than that is not.
    pub(crate) fn is_too_firm(&self, table: &Table) -> bool {
        table.firm_bytes() > self.firm()
    }

    /// Offers what is kept where too much of it is not.
    pub(crate) fn offer_if_too_firm(&self) {
        if let Locked::Done(true) = self.try_locked(|table| self.is_too_firm(table)) {
            self.offer();
        }
    }

    /// Offers the oldest of what is kept, until half of what need not be offered is left: then the next time is some way off. Left
    /// to whoever gives back.
    #[cold]
    pub(crate) fn offer(&self) {
        // What is marked later is written, and would have to be offered once more.
        let fresh = self.try_locked(|table| table.fresh.bytes);
        if let Locked::Done(fresh) = fresh
            && self.pays_to_look(0, fresh)
        {
            self.look_for_pins();
        }
        let me = self.kernel.thread();
        self.leavers.if_free(me, |batch| self.offer_by(batch));
    }

    fn offer_by(&self, batch: &mut Batch) {
        if !self.have_left(batch) {
            return;
        }
        let left = self.firm() / 2;
        for _ in 0..BATCHES {
            if !self.take_firm(batch, left) || batch.is_empty() || self.is_off_now() {
                return;
            }
            let ours = self.leave_out_foreign(batch, |range, fingerprint| {
                self.is_ours_by_reading(range, fingerprint)
            });
            if self.is_off_now() {
                // By a handler that has forked, in its child. They are leaving for good.
                return;
            }
            let done = self.offer_each(batch, ours);
            self.counters.offers.one();
            self.counters.offered.add(done);
            if done < ours {
                self.only_firm.store(true, Ordering::Relaxed);
            }
            // What could not be told goes back to its shelf, and would be the next again.
            let refused = done < batch.known;
            batch.did = Some(Did::Offered(done));
            if !self.have_left(batch) || refused {
                return;
            }
        }
    }

    /// The same as [`Shim::whose`] for what was kept a moment ago, and so can be read without fear.
    fn is_ours_by_reading(&self, range: Range, fingerprint: u64) -> Whose {
        let mapping = self.kernel.mapping_at(range);
        let is_plain = mapping.is_some_and(|mapping| mapping.is_plain);
        if !is_plain || self.kernel.all_there(range) != Some(true) {
            return self.whose(range, fingerprint);
        }
        // SAFETY: it is memory that can be read, and none of its pages is a guard.
        let known = unsafe {
            match fingerprint {
                0 => self.kernel.has_marks(range, self.mark()),
                _ => self.kernel.fingerprint(range) == fingerprint,
            }
        };
        if known { Whose::Ours } else { Whose::Foreign }
    }

    /// How many of the batch were offered, from the first on.
    fn offer_each(&self, batch: &Batch, ours: usize) -> usize {
        let ranges = batch.first(ours);
        let mut done = 0;
        if self.settings().batch && !ranges.is_empty() {
            // SAFETY: they were ours a moment ago, and the program has unmapped them. A thread that maps there in between, by a
            // system call that the library does not see, or a handler that does, in a child that it forks, may lose what it has
            // written by then.
            done = unsafe { self.advise_each(ranges, MADV_FREE) };
        }
        // Before Linux 6.15 it is refused, and each is a call of its own.
        let rest = ranges[done..].iter();
        // SAFETY: as above.
        let offer = |part: &&Part| unsafe { self.kernel.madvise(part.start, part.len, MADV_FREE) };
        done + rest.take_while(|part| offer(part).is_ok()).count()
    }

    /// Fills the batch with the oldest that is not offered yet; false if the lock was not to be had.
    fn take_firm(&self, batch: &mut Batch, left: usize) -> bool {
        batch.empty();
        let done = self.try_locked(|table| {
            while !batch.is_full() && table.firm_bytes() > left {
                let (dirty, fresh) = (&table.dirty, &table.fresh);
                let Some(id) = dirty.oldest_firm().or(fresh.oldest_firm()) else {
                    break;
                };
                let fingerprint = table.nodes.get(id).fingerprint;
                batch.add(id, fingerprint, table.leave(id));
            }
        });
        matches!(done, Locked::Done(()))
    }

    /// What was kept is not what it was. Where anything was offered the kernel may have taken it, which leaves its range mapped: so
    /// that this ends, no more is offered.
    pub(crate) fn note_foreign(&self) {
        self.counters.foreign.one();
        if self.counters.offered.get() > 0 {
            self.only_firm.store(true, Ordering::Relaxed);
        }
    }
}
