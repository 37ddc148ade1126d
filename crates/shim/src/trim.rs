//! Giving back kept memory: many regions by one system call and one shootdown.
//!
//! Regions leave in three steps: taken from their shelf with the lock, given back without it, and unmapped at once:
//! without memory that takes no shootdown, but where a page table becomes free with it (free_pgtables, mm/memory.c),
//! and without memory nobody could tell later whose they are. A region that can't be unmapped then stays mapped, and is
//! forgotten. Whoever wants to map something there meanwhile waits ([`Shim::unmap_kept_in`]); whoever unmaps a range
//! around them leaves them out.

use crate::in_flight::UnmappingSlot;
use crate::kernel::{Errno, Kernel};
use crate::leavers::{BATCH_REGIONS, Batch, BatchDeed};
use crate::linux::MADV_DONTNEED;
use crate::nodes::{NO_NODE, NodeId};
use crate::proof::Ownership;
use crate::region::{Kind, State};
use crate::shim::{Locked, Shim};
use crate::sync::Ordering;
use crate::table::Table;
use crate::waiting::Patience;
use crate::{Part, Range};

/// So often is slept for somebody who forks, until it can be told whose something is: until he has the lock.
const UNTOLD_SLEEPS: u32 = 4;
/// So many at once, then it is another thread's turn: others add while one gives back, and it would not end.
pub(crate) const MAX_BATCHES: usize = 256;

/// Why something was not unmapped. It is kept as before.
enum StaysMapped {
    Refused(Errno),
    /// It may be somebody else's, and can't be told just now.
    NotTold,
}

/// The obstacle for a thread that wants certain addresses.
enum Obstacle {
    Nothing,
    /// Somebody is at it: this thread, below the signal handler that we are in, or another.
    Leaving(bool),
    /// The range is ours to unmap now.
    Kept(TakenToUnmap),
}

/// The range that a thread has taken from the table to unmap it.
struct TakenToUnmap {
    place: UnmappingSlot,
    range: Range,
    /// How it is known: 0 is by the library's marks. None where it was given back just now, and looked at before that.
    fingerprint: Option<u64>,
    /// The range was offered to the kernel.
    offered: bool,
}

impl<K: Kernel> Shim<K> {
    /// Gives back until no more than so many bytes are kept; all of it, once nothing is to be kept any more; and in any case the
    /// anchors that have nothing beside them: with MAX only those. Left to whoever is at it already. False then: where that one
    /// only offers, nothing is given back.
    pub(crate) fn trim_to(&self, bytes: usize) -> bool {
        let trimmed = self.at_leavers(|batch| {
            if self.settings().batch {
                self.trim_by(batch, bytes);
            } else {
                self.have_left(batch);
            }
        });
        if trimmed.is_some() {
            self.offer_what_had_to_wait();
            // Regions that could not be given back can be unmapped, at a shootdown each.
            self.unmap_oldest_kept(bytes);
            self.unmap_lone_anchors();
        }
        trimmed.is_some()
    }

    /// Gives back all kept memory, once nobody else is at it. Others may come first each time; not without end.
    fn trim_all(&self) {
        const TURNS: u32 = 4;
        for _ in 0..TURNS {
            let ended = self.wait_while(|| self.is_other_at_leavers());
            if self.trim_to(0) || !ended {
                return;
            }
        }
    }

    /// The same before a fork(2), which waits for some tens of milliseconds only: the other thread may be stopped.
    pub(crate) fn trim_all_soon(&self) {
        const TURNS: u32 = 4;
        for _ in 0..TURNS {
            let seen = self.left.load(Ordering::SeqCst);
            if self.trim_to(0) || !self.is_other_at_leavers() {
                return;
            }
            self.sleep_until_left(seen);
        }
    }

    /// Gives back batch by batch, as the one thread that does. Ends where the kernel refuses some of it.
    fn trim_by(&self, batch: &mut Batch, bytes: usize) {
        if !self.have_left(batch) {
            return;
        }
        for _ in 0..MAX_BATCHES {
            if !self.take_oldest(batch, bytes) || batch.is_empty() || self.is_off_now() {
                break;
            }
            let ours = self.leave_out_foreign(batch, |_, range, by| self.ownership_of(range, by));
            if self.is_off_now() {
                // By a handler that has forked, in its child. They are leaving for good.
                break;
            }
            let done = self.give_back(batch.first_parts(ours));
            if done == 0 && ours > 1 {
                self.offers.go_alone();
            }
            self.counters.trims.count_one();
            self.counters.trimmed.add(done);
            // A region that could not be told goes back to its shelf, and would be the oldest again.
            let refused = done < batch.known;
            batch.note_deed(BatchDeed::GaveBack, done);
            self.unmap_given(&mut batch.ids[..done]);
            if !self.have_left(batch) || refused {
                break;
            }
        }
    }

    /// Puts last in the batch the regions that are somebody else's by now, and before them those that can't be told
    /// just now. Returns how many are ours. The table is told of all of the batch when it is over.
    pub(crate) fn leave_out_foreign(
        &self,
        batch: &mut Batch,
        whose: impl Fn(NodeId, Range, u64) -> Ownership,
    ) -> usize {
        let (mut ours, mut known) = (0, 0);
        for n in 0..batch.count {
            let Part { start, len } = batch.ranges[n];
            let end = start + len;
            let whose = whose(batch.ids[n], Range { start, end }, batch.fingerprints[n]);
            if whose == Ownership::Foreign {
                self.note_foreign(len, batch.offered[n]);
                continue;
            }
            batch.swap_entries(n, known);
            if whose == Ownership::Ours {
                batch.swap_entries(known, ours);
                ours += 1;
            }
            known += 1;
        }
        batch.known = known;
        ours
    }

    /// Tells the table the result. False where a fork(2) that takes long has the lock: then it is told the next time,
    /// and until then they are leaving.
    pub(crate) fn have_left(&self, batch: &mut Batch) -> bool {
        let (given_back, offered) = match batch.deed {
            BatchDeed::GaveBack => (batch.done, 0),
            BatchDeed::Offered => (0, batch.done),
            BatchDeed::Nothing => return true,
        };
        let put = self.locked(|table| {
            for (n, id) in batch.ids[..batch.count].iter().enumerate() {
                match n {
                    // The region is unmapped.
                    _ if *id == NO_NODE => {}
                    // Without memory nobody can tell any more whether it is ours: it stays mapped.
                    _ if n < given_back => self.leave_mapped(table, *id),
                    // A region that was not given back has its memory, and is kept.
                    _ if n < batch.known => {
                        table.nodes.get_mut(*id).offered |= n < offered;
                        table.finish_leaving(*id, State::Dirty);
                    }
                    _ => table.finish_as_lost(*id),
                }
            }
        });
        let told = matches!(put, Locked::Done(()));
        if told {
            batch.deed = BatchDeed::Nothing;
        }
        self.leavers.untold.store(!told, Ordering::Relaxed);
        self.somebody_left();
        told
    }

    /// Unmaps the regions that were given back just now, as far as the lock is to be had, and takes them out of the
    /// list.
    fn unmap_given(&self, ids: &mut [NodeId]) {
        let me = self.kernel.thread_id();
        for id in ids {
            let taken = self.locked(|table| {
                let gone = self.take_given_back_to_unmap(table, *id, me);
                if gone.is_none() {
                    self.leave_mapped(table, *id);
                }
                gone
            });
            match taken {
                Locked::Done(Some(gone)) => drop(self.unmap_going(gone)),
                Locked::Done(None) => {}
                Locked::Mine | Locked::Busy => return,
            }
            *id = NO_NODE;
        }
    }

    /// Takes from the table a leaving region that was given back. None where too many threads unmap, or it was mapped
    /// anew.
    fn take_given_back_to_unmap(
        &self,
        table: &mut Table,
        id: NodeId,
        me: usize,
    ) -> Option<TakenToUnmap> {
        let (place, range) = table.start_unmapping_given_back(id, me)?;
        self.unmapping[place.index()].store(me, Ordering::SeqCst);
        Some(TakenToUnmap {
            place,
            range,
            fingerprint: None,
            offered: false,
        })
    }

    /// A region that was given back and can't be unmapped is known no more.
    fn leave_mapped(&self, table: &mut Table, id: NodeId) {
        let region = table.nodes.get(id);
        if region.state == State::Leaving {
            self.counters.clean_bytes.add(region.range.len());
        }
        table.finish_as_lost(id);
    }

    /// Tells it for whoever finds something leaving that nobody is at.
    pub(crate) fn settle_untold(&self) {
        if !self.leavers.have_untold() {
            return;
        }
        self.at_leavers(|batch| self.have_left(batch));
    }

    /// Does it as the one thread that gives back or offers; not at all where another is at it. Whoever waits for that hears that it
    /// is over, also where nothing has left.
    pub(crate) fn at_leavers<T>(&self, work: impl FnOnce(&mut Batch) -> T) -> Option<T> {
        let done = self.leavers.if_free(self.kernel.thread_id(), work);
        if done.is_some() {
            self.somebody_left();
        }
        done
    }

    /// Fills the batch with anchors that have nothing beside them any more, and with the oldest; false if the lock was not to be
    /// had. To unmap each anchor by itself would be a shootdown each.
    fn take_oldest(&self, batch: &mut Batch, bytes: usize) -> bool {
        batch.clear();
        let done = self.locked_to_trim(|table| {
            let bytes = self.still_kept(bytes);
            // Where the kernel does not take many at once they go one by one.
            if !self.is_one_by_one() {
                table.leave_lone_anchors(BATCH_REGIONS, |id, anchor| batch.add(id, anchor));
            }
            while batch.len() < BATCH_REGIONS && table.kept_bytes() > bytes {
                // Memory that may serve was kept before memory that may not yet.
                let Some(id) = table.dirty.oldest_kept().or(table.fresh.oldest_kept()) else {
                    break;
                };
                let id = table.cut_to(id, table.kept_bytes() - bytes);
                batch.add(id, &table.start_leaving(id));
            }
        });
        matches!(done, Locked::Done(()))
    }

    /// How many of the ranges were given back, from the first on.
    fn give_back(&self, ranges: &[Part]) -> usize {
        if ranges.is_empty() {
            return 0;
        }
        // SAFETY: they were ours a moment ago, and the program has unmapped them. A thread that maps there in between, by a
        // system call that the library does not see, or a handler that does, in a child that it forks, would lose that.
        unsafe { self.advise_each(ranges, MADV_DONTNEED) }
    }

    /// Advises ranges by one call. How many, from the first on.
    ///
    /// # Safety
    ///
    /// That of [`Kernel::advise_each`].
    pub(crate) unsafe fn advise_each(&self, ranges: &[Part], advice: i32) -> usize {
        // SAFETY: the caller's.
        let mut bytes = unsafe { self.kernel.advise_each(ranges, advice) }.unwrap_or(0);
        let mut done = 0;
        // A short return ends at the range that could not be done, or in it.
        while done < ranges.len() && bytes >= ranges[done].len {
            bytes -= ranges[done].len;
            done += 1;
        }
        done
    }

    /// Unmaps kept memory, the oldest first, until no more than so many bytes are left. As much as there is too much
    /// now at most: others may add faster, and it would not end.
    fn unmap_oldest_kept(&self, bytes: usize) {
        let Locked::Done(kept) = self.locked_to_trim(|table| table.kept_bytes()) else {
            return;
        };
        let mut left = kept.saturating_sub(self.still_kept(bytes));
        let find = |table: &mut Table| {
            let most = table.kept_bytes() > self.still_kept(bytes);
            let oldest = table.dirty.oldest_kept().or(table.fresh.oldest_kept());
            oldest.filter(|_| most)
        };
        while left > 0
            && let Some(unmapped) = self.unmap_one(find)
        {
            left = left.saturating_sub(unmapped);
        }
    }

    /// Unmaps a kept region that can't be shown to be plain any more, offered to the kernel or not.
    pub(crate) fn hand_over(&self, range: Range, kind: Kind, offered: bool) {
        let me = self.kernel.thread_id();
        let taken = self.locked(|table| {
            let id = table.keep_again(range, kind, offered, self.is_retired())?;
            self.take_to_unmap(table, id, range, me)
        });
        match taken {
            // If it is somebody else's, as something was mapped over it past the library, it is left alone.
            Locked::Done(Some(gone)) => drop(self.unmap_going(gone)),
            // Too many threads unmap: it is kept, and goes later. Or somebody has it now.
            Locked::Done(None) => {}
            // It stays mapped, and nobody knows of it: that takes a fork of another thread that has the lock for long.
            Locked::Mine | Locked::Busy => self.forget(range),
        }
    }

    /// Unmaps a leaving region that is not to be kept after all. None where that can't be: then it is kept as before,
    /// unless something else was mapped there meanwhile.
    pub(crate) fn unmap_leaving(&self, id: NodeId, range: Range) -> Option<()> {
        let me = self.kernel.thread_id();
        let taken = self.locked(|table| {
            let lost = table.nodes.get(id).state == State::Lost;
            table.finish_leaving(id, State::Dirty);
            // A lost region is in the table no more.
            if lost {
                return None;
            }
            self.take_to_unmap(table, id, range, me)
        });
        match taken {
            Locked::Done(gone) => self.unmap_taken(gone?).map(drop),
            Locked::Mine | Locked::Busy => {
                if !self.defer_to_holder(&self.unmarked, range) {
                    // It would be leaving for ever, and nobody at it.
                    self.turn_off();
                }
                None
            }
        }
    }

    /// Kept memory can be given back the next time that there is too much of it. Once nothing is to be kept any more
    /// the next time may be far off, and the lock is waited for.
    pub(crate) fn locked_to_trim<T>(&self, work: impl FnOnce(&mut Table) -> T) -> Locked<T> {
        if self.is_retired() {
            self.locked(work)
        } else {
            self.try_locked(work)
        }
    }

    /// To so much a trim goes: to nothing, once nothing is to be kept any more. Asked with the lock, which [`Shim::stop_keeping`] takes
    /// after it has said so: a trim that began before that sees it at its next batch.
    fn still_kept(&self, bytes: usize) -> usize {
        if self.is_retired() { 0 } else { bytes }
    }

    /// Unmaps an anchor that is like this, if there is one.
    pub(crate) fn unmap_first_anchor(&self, is: impl Fn(&Table, usize) -> bool) -> Option<()> {
        let unmapped = self.unmap_one(|table| {
            let mut all = table.anchors.all_starts().iter().copied();
            let start = all.find(|start| is(table, *start))?;
            table.anchor_at(start)
        });
        unmapped.map(drop)
    }

    /// Unmaps the region that is found. Returns its bytes, or none where there is none, or it can't be unmapped.
    fn unmap_one(&self, find: impl FnOnce(&mut Table) -> Option<NodeId>) -> Option<usize> {
        let me = self.kernel.thread_id();
        let taken = self.locked_to_trim(|table| {
            let id = find(table)?;
            let range = table.nodes.get(id).range;
            self.take_to_unmap(table, id, range, me)
        });
        match taken {
            Locked::Done(gone) => self.unmap_taken(gone?),
            Locked::Mine | Locked::Busy => None,
        }
    }

    /// Unmaps what was taken from the table. Its bytes; none where it stays, or the library is off by now, so that the caller
    /// goes on to no other.
    fn unmap_taken(&self, gone: TakenToUnmap) -> Option<usize> {
        let len = gone.range.len();
        self.unmap_going(gone).ok()?;
        (!self.is_off_now()).then_some(len)
    }

    /// Takes it from the table, for this thread to unmap. See [`Table::start_unmapping`].
    fn take_to_unmap(
        &self,
        table: &mut Table,
        id: NodeId,
        range: Range,
        me: usize,
    ) -> Option<TakenToUnmap> {
        let region = table.nodes.get(id);
        let (fingerprint, offered) = (Some(region.fingerprint), region.offered);
        let (place, range) = table.start_unmapping(id, range, me)?;
        self.unmapping[place.index()].store(me, Ordering::SeqCst);
        Some(TakenToUnmap {
            place,
            range,
            fingerprint,
            offered,
        })
    }

    /// Unmaps a range that is ours to unmap, and tells the table. Ok also where it is left alone: as somebody else's by now, or
    /// as the library is off.
    fn unmap_going(&self, gone: TakenToUnmap) -> Result<(), StaysMapped> {
        let TakenToUnmap { place, range, .. } = gone;
        let whose = match gone.fingerprint {
            Some(fingerprint) => self.ownership_of(range, fingerprint),
            None => Ownership::Ours,
        };
        let done = match whose {
            Ownership::Foreign => {
                self.note_foreign(range.len(), gone.offered);
                Ok(())
            }
            _ if self.is_off_now() => Ok(()),
            Ownership::NotTold => Err(StaysMapped::NotTold),
            Ownership::Ours => {
                // SAFETY: it was ours a moment ago, the program has unmapped it, and nobody who calls the library takes it
                // now. A thread that maps there in between, by a system call that the library does not see, would lose it.
                let done = unsafe { self.kernel.munmap(range.start, range.len()) };
                done.map_err(StaysMapped::Refused)
            }
        };
        let told = self.locked(|table| self.tell_gone(table, place, done.is_ok()));
        if !matches!(told, Locked::Done(())) {
            // A fork(2) that takes long has the lock.
            let over = if done.is_ok() {
                &self.over
            } else {
                &self.stays
            };
            over.fetch_or(place.bit(), Ordering::Relaxed);
            self.note_news();
        }
        let me = self.kernel.thread_id();
        let order = (Ordering::SeqCst, Ordering::SeqCst);
        // Another's where the table was told, and the place taken again meanwhile.
        let _ = self.unmapping[place.index()].compare_exchange(me, 0, order.0, order.1);
        self.somebody_left();
        done
    }

    fn tell_gone(&self, table: &mut Table, place: UnmappingSlot, unmapped: bool) {
        let stay = table.finish_unmapping(place, unmapped);
        self.counters.clean_bytes.add(stay);
    }

    /// Tells the table which ranges were unmapped, or were not, while a fork(2) had the lock. For
    /// [`Shim::work_and_release`], once the table knows the new mappings.
    pub(crate) fn tell_over(&self, table: &mut Table) {
        for (places, unmapped) in [(&self.over, true), (&self.stays, false)] {
            if places.load(Ordering::Relaxed) != 0 {
                let places = places.swap(0, Ordering::Relaxed);
                UnmappingSlot::for_each_bit(places, |place| self.tell_gone(table, place, unmapped));
            }
        }
    }

    /// Says to all who wait ([`Shim::wait_while`]) that something has come to an end, once others can see that it has.
    pub(crate) fn somebody_left(&self) {
        self.left.fetch_add(1, Ordering::SeqCst);
        // Whoever comes to wait after this has seen the new number. A program without threads might not make the call.
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.kernel.wake_all(&self.left);
        }
    }

    /// Whether this thread gives back or marks, below the signal handler that we are in.
    pub(crate) fn is_leaver(&self, me: usize) -> bool {
        self.leavers.are_of(me) || self.marking.load(Ordering::SeqCst) == me
    }

    /// What stands in the way of whoever wants this range, one thing at a time; kept memory is taken to be unmapped by the way.
    fn in_the_way(&self, table: &mut Table, range: Range, me: usize) -> Obstacle {
        if let Some(thread) = table.going.thread_unmapping_in(range) {
            return Obstacle::Leaving(thread == me);
        }
        let Some(id) = table.kept_in(range) else {
            return Obstacle::Nothing;
        };
        if matches!(table.nodes.get(id).state, State::Leaving | State::Lost) {
            return Obstacle::Leaving(self.is_leaver(me));
        }
        match self.take_to_unmap(table, id, range, me) {
            Some(gone) => Obstacle::Kept(gone),
            None => Obstacle::Leaving(false),
        }
    }

    /// Unmaps kept memory and anchors in a range, so that it is to the kernel as it is to the program; of a region without marks,
    /// or where there is no room for what would be left of it, also what lies outside. It is not looked at where the table can't
    /// be had: by a handler inside the table, or while a fork waits. Another thread may be zeroing some of it, or changing its
    /// protection: to a call that leaves the range as it is that makes no difference, and for others there is
    /// [`Shim::clear_the_way`].
    ///
    /// # Errors
    ///
    /// Those of munmap(2), and ENOMEM where something there is being given back and does not come to an end: for two seconds by
    /// another thread, or in the thread that this signal handler interrupted.
    pub(crate) fn unmap_kept_in(&self, range: Range) -> Result<(), Errno> {
        if self.is_off() {
            return Ok(());
        }
        let me = self.kernel.thread_id();
        let mut patience = Patience::default();
        let mut not_told = 0;
        loop {
            let seen = self.left.load(Ordering::Acquire);
            match self.locked(|table| self.in_the_way(table, range, me)) {
                Locked::Done(Obstacle::Nothing) => return Ok(()),
                // The library is off by now.
                Locked::Busy => {
                    self.wait_while_busy();
                    return Ok(());
                }
                // A handler inside the lock can't look, and nobody while another thread forks: where a range is
                // replaced, the holder forgets it.
                Locked::Mine => {
                    self.wait_for_leavers();
                    return Ok(());
                }
                Locked::Done(Obstacle::Leaving(true)) => return Err(Errno::ENOMEM),
                Locked::Done(Obstacle::Leaving(false)) => {
                    if patience.is_over(&self.kernel) {
                        return Err(Errno::ENOMEM);
                    }
                    self.settle_untold();
                    self.sleep_until_left(seen);
                }
                Locked::Done(Obstacle::Kept(gone)) => {
                    let kept = gone.range;
                    match self.unmap_going(gone) {
                        Ok(()) => self.counters.evicted.count_one(),
                        Err(StaysMapped::Refused(error)) => return Err(error),
                        Err(StaysMapped::NotTold) if not_told < UNTOLD_SLEEPS => {
                            not_told += 1;
                            let seen = self.left.load(Ordering::Acquire);
                            self.sleep_until_left(seen);
                        }
                        // The program wants it there and then: it may map over it, and only the rest is lost.
                        Err(StaysMapped::NotTold) => {
                            self.note_foreign(kept.len(), false);
                            let _ = self.locked(|table| table.forget(kept, true));
                        }
                    }
                }
            }
        }
    }

    /// Readies a range for a call that makes something else of it, and that is not followed: forgets it, waits for
    /// whoever is at it, and unmaps kept memory there. In this order: who is at it may be about to put an anchor there.
    ///
    /// # Errors
    ///
    /// Those of [`Shim::unmap_kept_in`], and ENOMEM where somebody is at it who does not come to an end in two seconds.
    pub(crate) fn clear_the_way(&self, range: Range) -> Result<(), Errno> {
        self.forget_and_wait(range)?;
        self.unmap_kept_in(range)
    }

    /// A call of the program's that takes room: addresses, or one more mapping where there may be only so many
    /// (vm.max_map_count). Where there is none, kept memory is unmapped, and the kernel is asked again.
    ///
    /// # Errors
    ///
    /// Those of `call`.
    pub(crate) fn with_room<T>(&self, call: impl Fn() -> Result<T, Errno>) -> Result<T, Errno> {
        match call() {
            Err(Errno::ENOMEM) if self.unmap_all_kept() => call(),
            done => done,
        }
    }

    /// Unmaps all kept memory and all anchors. True if there was something, or may have been, as the lock was not to be had.
    pub(crate) fn unmap_all_kept(&self) -> bool {
        if self.is_off_now() {
            return false;
        }
        let before =
            self.locked_to_trim(|table| table.kept_bytes() + table.leaving + table.anchors.count());
        self.trim_all();
        self.unmap_anchors();
        !matches!(before, Locked::Done(0))
    }
}
