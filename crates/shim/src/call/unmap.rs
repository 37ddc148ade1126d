//! munmap(2): memory that is known, and that its next owner is likely to use, is kept.

use crate::Range;
use crate::allowance::Allowance;
use crate::kernel::{Errno, Kernel};
use crate::proof::PlainProof;
use crate::range_claims::{Claim, MAX_WAIT_TURNS};
use crate::region::Kind;
use crate::shim::{Locked, Shim};
use crate::sync::Ordering;
use crate::table::{HabitOf, Table};
use crate::wipe::RangeDensity;

/// Kept memory may cut others, and needs as many places at most.
pub(crate) const PLACES_NEEDED: usize = 4;

/// Memory that may be kept.
#[derive(Clone, Copy)]
struct ReadyToKeep {
    kind: Kind,
    fingerprint: u64,
}

/// Whether a range that the program unmaps may be kept.
enum Readiness {
    Ready(ReadyToKeep),
    Not,
    /// It is not known, or by the habit of its size not even asked for, and so the table was told of it at once.
    NotAsked(UnmapDecision),
}

#[derive(Clone, Copy)]
enum UnmapDecision {
    /// It is kept. Whether more is now that the kernel can't take than may be, so that some is to be offered.
    Kept(bool),
    /// It would be, if there were not so much already, or so many.
    Full,
    /// Another thread is at the range.
    Busy,
    /// The kernel unmaps it. Where there may be holes in it, others are told of that until it is over.
    Pass(Option<Claim>),
    /// Some of it is kept already, or being unmapped: the rest, piece by piece.
    Pieces(Option<Claim>),
}

impl<K: Kernel> Shim<K> {
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
        self.counters.munmap.count_one();
        let range = match Range::from_addr_len(addr, len) {
            Some(range) if !self.is_off() => range,
            // SAFETY: the caller's own call.
            _ => return unsafe { self.kernel.munmap(addr, len) },
        };
        if self.counters.dirty_bytes.get() > 0 {
            self.look_for_bytes(range.len());
        }
        let is_full = self.is_full_for(range.len());
        let readiness = if is_full {
            Readiness::Not
        } else {
            self.ready_to_keep(range)
        };
        // The last two allow nothing. That they differ tells `keep_or_not` which of its counts it is.
        let (ready, may) = match readiness {
            Readiness::Ready(ready) => (Some(ready), self.allowance_for(range.len())),
            _ if is_full => (None, Allowance::of_budget(0)),
            _ => (None, Allowance::KEEP_NOTHING),
        };
        let keep_or_not = |table: &mut Table| self.keep_or_not(table, range, may, ready);
        let mut done = match readiness {
            Readiness::NotAsked(then) => Locked::Done(then),
            _ => self.locked(keep_or_not),
        };
        for _ in 0..MAX_WAIT_TURNS {
            match done {
                Locked::Done(UnmapDecision::Busy) => {
                    self.or_used_below(range, Self::wait_for_others)?;
                }
                _ => break,
            }
            done = self.locked(keep_or_not);
        }
        if let Locked::Done(UnmapDecision::Full) = done {
            // With some way to go to the next time. Memory that others give back meanwhile is not waited for.
            self.trim_to(may.trim_to);
            done = self.locked(keep_or_not);
        }
        match done {
            Locked::Done(UnmapDecision::Kept(too_firm)) => {
                self.counters.munmap_kept.count_one();
                if too_firm {
                    self.offer_oldest();
                }
                Ok(())
            }
            Locked::Done(UnmapDecision::Pieces(begun)) => {
                // SAFETY: the caller's own call, less the part that is not the program's any more.
                let call = || unsafe { self.unmap_the_rest(range) };
                self.end_after(begun, call)
            }
            Locked::Done(UnmapDecision::Busy) => self.keep_others_away(range, || {
                self.or_used_below(range, Self::forget_and_wait)?;
                // SAFETY: as above.
                unsafe { self.unmap_the_rest(range) }
            }),
            Locked::Done(UnmapDecision::Full) | Locked::Mine => {
                self.keep_others_away(range, || {
                    if matches!(done, Locked::Mine) {
                        // Parts of it that others unmap or give back go first, or they would do it to whoever is given
                        // them next.
                        self.wait_for_leavers();
                    }
                    self.or_used_below(range, Self::forget_and_wait)?;
                    // SAFETY: the caller's own call.
                    self.with_room(|| unsafe { self.kernel.munmap(addr, len) })
                })
            }
            Locked::Done(UnmapDecision::Pass(begun)) => {
                // SAFETY: the caller's own call.
                let call = || unsafe { self.kernel.munmap(addr, len) };
                // A hole makes two mappings of one, for which there may be no room.
                self.end_after(begun, || self.with_room(call))
            }
            Locked::Busy => {
                // The library is off by now.
                self.wait_while_busy();
                // SAFETY: the caller's own call.
                self.with_room(|| unsafe { self.kernel.munmap(addr, len) })
            }
        }
    }

    /// A range that the program unmaps and that may be kept for another mapping: it is worth that, and is plain memory, all
    /// of it there. Its content is as it was: the program's call may fail yet.
    fn ready_to_keep(&self, range: Range) -> Readiness {
        let settings = self.settings();
        let len = range.len();
        let is_for_it = len >= settings.least && len <= settings.cache && !settings.strict;
        if !is_for_it || self.is_retired() || !self.pays_to_prove(len) || self.is_crowded() {
            return Readiness::Not;
        }
        let asked = self.try_locked(|table| {
            let kind = table.kind_of(range).filter(|kind| kind.may_be_kept());
            if let Some(kind) = kind
                && table.habit_of(HabitOf::Mappings, len).note_end()
            {
                let served = !table.all_live(range, |region| !region.was_served);
                return Ok((kind, served));
            }
            // Most ranges of a program that uses little of its memory are so, and take the lock once.
            Err(self.keep_or_not(table, range, Allowance::KEEP_NOTHING, None))
        });
        let (kind, served) = match asked {
            Locked::Done(Ok(known)) => known,
            Locked::Done(Err(then)) => return Readiness::NotAsked(then),
            Locked::Mine | Locked::Busy => return Readiness::Not,
        };
        self.look_now_and_then();
        match self.make_ready(range, kind, served) {
            Some(ready) => Readiness::Ready(ready),
            None => Readiness::Not,
        }
    }

    /// The same for a range of this kind, of which its habit says that it may be worth it.
    fn make_ready(&self, range: Range, mut kind: Kind, served: bool) -> Option<ReadyToKeep> {
        let len = range.len();
        let dense = self.use_of(HabitOf::Mappings, range, kind) == RangeDensity::Dense;
        let trusted = self.learn_from_lifetime(HabitOf::Mappings, len, dense, served);
        if !dense || !trusted {
            return None;
        }
        if self.kept_budget() < len || self.is_shared(range) {
            return None;
        }
        if kind.named {
            // Whoever gets it next would not have given it that.
            self.unname_or_forget(range);
            kind.named = false;
        }
        let plain = self.prove_plain(range, kind);
        let fingerprint = if plain == PlainProof::Yes {
            // Where another thread is at it, that says nothing of its kind.
            self.fill_and_read(range)?
        } else {
            None
        };
        if fingerprint.is_none() {
            self.counters.passed_unknown.count_one();
            let _ = self.try_locked(|table| {
                let full = table.anchors.are_full();
                let habit = table.habit_of(HabitOf::Mappings, len);
                if plain != PlainProof::NoRoom {
                    habit.was_mistaken();
                    return;
                }
                // Where mappings of this size bring none, it would be tried in vain each time.
                if full || habit.brings_anchor {
                    habit.pause_looks();
                }
                habit.brings_anchor = true;
                self.anchors_are_wanted.store(true, Ordering::Relaxed);
            });
        }
        let fingerprint = fingerprint?;
        Some(ReadyToKeep { kind, fingerprint })
    }

    /// Fills memory that is to be kept, and returns the fingerprint by which it can be told later; nothing where a page
    /// is a guard. None where another thread is at the range: it may be taking its rights or its memory away, and
    /// whoever does so by the library waits for us.
    fn fill_and_read(&self, range: Range) -> Option<Option<u64>> {
        let begun = self.try_locked(|table| {
            let known = table.all_live(range, |region| region.kind.is_read_write());
            known.then(|| self.begin_to_use(range)).flatten()
        });
        self.use_if_begun(begun, || {
            // SAFETY: it is plain memory that the program has done with, and nobody takes it away meanwhile.
            let ready = unsafe { self.fill_missing(range) };
            // SAFETY: and none of its pages is a guard.
            ready.then(|| unsafe { self.kernel.fingerprint(range) })
        })
    }

    /// Whether so much is kept that no more can be, and nothing is given back for it. To prove the kind of more memory
    /// would be in vain, and where many threads do, each by calls that wait for the others' mappings, whoever makes
    /// kept memory ready to serve does not get on: 64 threads took 1.6 times as long.
    fn is_full_for(&self, len: usize) -> bool {
        let kept = || self.counters.dirty_bytes.get() as usize;
        if kept() == 0 || self.settings().resident != 0 {
            return false;
        }
        let budget = self.kept_budget();
        let is_full = |budget: usize| kept() > 0 && kept().saturating_add(len) > budget;
        if self.leavers.are_there() {
            return is_full(
                Allowance::of_budget(budget)
                    .with_meanwhile(budget)
                    .meanwhile,
            );
        }
        if is_full(budget) {
            self.settle_untold();
        }
        is_full(budget)
    }

    /// Notes how a lifetime was, and says whether the next is expected to be dense. Memory that was `served` and not
    /// used was zeroed for nothing.
    pub(super) fn learn_from_lifetime(
        &self,
        of: HabitOf,
        len: usize,
        dense: bool,
        served: bool,
    ) -> bool {
        let lifetimes = self.settings().lifetimes;
        let trusted = self.try_locked(|table| {
            let habit = table.habit_of(of, len);
            match (dense, served) {
                (true, _) => habit.was_dense(),
                (false, false) => habit.was_thin(),
                (false, true) => {
                    self.counters.mistaken.count_one();
                    match of {
                        HabitOf::Mappings => habit.was_mistaken(),
                        // The pages in memory were zeroed, and none were filled for it.
                        HabitOf::GivenBack => habit.was_thin(),
                    }
                }
            }
            table.is_trusted(of, len, lifetimes)
        });
        matches!(trusted, Locked::Done(true))
    }

    /// Fills the pages of a range that have no memory; false where one is a guard page, which has none, or that fails.
    ///
    /// Also where all have, once the program has let the kernel have pages by MADV_FREE. Such a page may go at any
    /// moment until it is written, and then nobody could tell any more whose the range is: it would stay mapped for
    /// good. To fill it is to write it (set_page_dirty in follow_page_pte, mm/gup.c), and dirty pages stay
    /// (try_to_unmap_one, mm/rmap.c, Linux 6.18).
    unsafe fn fill_missing(&self, range: Range) -> bool {
        let populate = crate::linux::MADV_POPULATE_WRITE;
        let all_there = || self.kernel.all_there(range) == Some(true);
        !self.frees.load(Ordering::Relaxed) && all_there()
            // SAFETY: the caller's range, whose content nobody needs.
            || unsafe { self.kernel.madvise(range.start, range.len(), populate) }.is_ok()
                && all_there()
    }

    /// Keeps a range, if it is `ready` and `may` allows it, or else takes it from the table for the kernel to unmap. With the
    /// lock. Where it says [`UnmapDecision::Busy`] or [`UnmapDecision::Full`] the table is as before, and it may be asked again.
    fn keep_or_not(
        &self,
        table: &mut Table,
        range: Range,
        may: Allowance,
        ready: Option<ReadyToKeep>,
    ) -> UnmapDecision {
        if self.busy.is_in_the_way(range, self.kernel.thread_id()) {
            return UnmapDecision::Busy;
        }
        // Above that only those get addresses who ask for them (Documentation/arch/x86/x86_64/5level-paging.rst), and
        // whoever is served would not have.
        let fits = range.len() <= may.most && range.end <= 1 << 47;
        // Nothing may be kept any more where that was decided after the allowance was asked for.
        if fits
            && !self.is_retired()
            && let Some(ReadyToKeep { kind, fingerprint }) = ready
            && table.all_live(range, |region| region.kind.may_be_kept())
            && table.nodes.has_room(PLACES_NEEDED)
        {
            let most = if self.leavers.are_there() {
                may.meanwhile
            } else {
                may.most
            };
            if table.kept_bytes() + table.leaving + range.len() > most {
                return UnmapDecision::Full;
            }
            table.keep_all(range, kind, fingerprint);
            return UnmapDecision::Kept(self.is_too_firm(table));
        }
        let forgotten = table.forget(range, false);
        if !forgotten.was_plain {
            self.counters.passed_unknown.count_one();
        } else if may == Allowance::KEEP_NOTHING {
            self.counters.passed_unused.count_one();
        } else {
            self.counters.passed_budget.count_one();
        }
        let may_have_holes = forgotten.mapped < range.len();
        let begun = may_have_holes.then(|| self.begin_to_replace(range));
        if forgotten.others_stay || table.going.last_range_in(range).is_some() {
            UnmapDecision::Pieces(begun)
        } else {
            UnmapDecision::Pass(begun)
        }
    }

    /// Waits for those that are at a range. Another thread that does not come to an end is given up, and unmapping does not fail for
    /// that; only where it is this one, below the signal handler that we are in.
    fn or_used_below(
        &self,
        range: Range,
        wait: impl FnOnce(&Self, Range) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let below = self.busy.is_used_below(range, self.kernel.thread_id());
        let waited = wait(self, range);
        if below { waited } else { Ok(()) }
    }

    /// Takes its name away, where the kernel does that; otherwise it is not known any more, and unmapped.
    fn unname_or_forget(&self, range: Range) {
        // SAFETY: the caller's own range; a name is no content.
        match unsafe { self.kernel.unname(range) } {
            Ok(()) => self.note_of(range, |kind| kind.named = false),
            Err(_) => self.forget(range),
        }
    }

    /// Unmaps the part of the range that is not kept: the kept part was unmapped before, as far as the program knows.
    /// From the end on: the kernel refuses a range that reaches too far before it has done anything. It ends: each turn goes on
    /// below what the one before has done or left out.
    unsafe fn unmap_the_rest(&self, range: Range) -> Result<(), Errno> {
        let mut to = range.end;
        while to > range.start {
            let rest = Range {
                start: range.start,
                end: to,
            };
            let kept = match self.locked(|table| table.last_not_own(rest)) {
                Locked::Done(kept) => kept,
                Locked::Mine | Locked::Busy => None,
            };
            let (start, next) =
                kept.map_or((range.start, range.start), |k| (k.end.min(to), k.start));
            if start < to {
                // SAFETY: within the caller's own range, and not kept.
                self.with_room(|| unsafe { self.kernel.munmap(start, to - start) })?;
            }
            to = next;
        }
        Ok(())
    }
}
