//! munmap(2): memory that is known is kept.

use crate::Range;
use crate::allowance::Allowance;
use crate::busy::TURNS;
use crate::kernel::{Errno, Kernel};
use crate::shim::{Locked, Shim};
use crate::table::Table;

/// What is kept may cut others, and needs as many places at most.
pub(crate) const ROOM: usize = 4;

enum Then {
    Kept,
    /// It would be, if there were not so much already, or so many.
    Full,
    /// Another thread is at it.
    Busy,
    /// It has a name, which whoever gets it next would have not given it.
    Named,
    Pass,
    /// Some of it is kept already, or being unmapped: the rest, piece by piece.
    Pieces,
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
        self.counters.munmap.one();
        let range = match Range::of(addr, len) {
            Some(range) if !self.is_off() => range,
            // SAFETY: the caller's own call.
            _ => return unsafe { self.kernel.munmap(addr, len) },
        };
        self.look();
        let may = self.allowance(range.len());
        let mut done = self.locked(|table| self.keep_or_not(table, range, may));
        for _ in 0..TURNS {
            match done {
                Locked::Done(Then::Busy) => self.wait_until_idle(range),
                Locked::Done(Then::Named) => self.unname(range),
                _ => break,
            }
            done = self.locked(|table| self.keep_or_not(table, range, may));
        }
        if let Locked::Done(Then::Full) = done {
            // With some way to go to the next time. What others give back meanwhile is not waited for.
            self.trim_to(may.trim_to);
            done = self.locked(|table| self.keep_or_not(table, range, may));
        }
        match done {
            Locked::Done(Then::Kept) => {
                self.counters.munmap_kept.one();
                self.trim_clean();
                Ok(())
            }
            // SAFETY: the caller's own call, less what is not the program's any more.
            Locked::Done(Then::Pieces) => unsafe { self.unmap_the_rest(range) },
            Locked::Done(Then::Busy | Then::Named) => {
                self.forget(range);
                // SAFETY: as above.
                unsafe { self.unmap_the_rest(range) }
            }
            Locked::Done(Then::Full) | Locked::Mine => {
                if matches!(done, Locked::Mine) {
                    // What others unmap or give back in it goes first, or they would do it to whoever is given it next.
                    self.wait_for_leavers();
                }
                self.forget(range);
                // SAFETY: the caller's own call.
                unsafe { self.kernel.munmap(addr, len) }
            }
            Locked::Done(Then::Pass) | Locked::Busy => {
                // A hole makes two mappings of one.
                // SAFETY: the caller's own call.
                self.with_room(|| unsafe { self.kernel.munmap(addr, len) })
            }
        }
    }

    fn keep_or_not(&self, table: &mut Table, range: Range, may: Allowance) -> Then {
        if self.busy.is_other_at(range, self.kernel.thread()) {
            return Then::Busy;
        }
        let known = table.all_live(range, |region| region.kind.may_be_kept());
        // Above that only those get addresses who ask for them (Documentation/arch/x86/x86_64/5level-paging.rst), and
        // whoever is served would not have.
        let fits = known && range.len() <= may.most && range.end <= 1 << 47;
        if fits && !table.nodes.has_room(ROOM) && table.clean.count > 0 {
            return Then::Full;
        }
        if fits && table.nodes.has_room(ROOM) {
            if !table.all_live(range, |region| !region.kind.named) {
                return Then::Named;
            }
            let most = if self.leavers.are_there() {
                may.meanwhile
            } else {
                may.most
            };
            if table.dirty.bytes + table.leaving + range.len() > most {
                return Then::Full;
            }
            table.keep_all(range);
            return Then::Kept;
        }
        if known {
            self.counters.passed_budget.one();
        } else {
            self.counters.passed_unknown.one();
        }
        table.forget(range, false);
        match table.last_not_own(range) {
            Some(_) => Then::Pieces,
            None => Then::Pass,
        }
    }

    /// Takes its name away, where the kernel does that; otherwise it is not known any more, and unmapped.
    fn unname(&self, range: Range) {
        // SAFETY: the caller's own range; a name is no content.
        match unsafe { self.kernel.unname(range) } {
            Ok(()) => self.note_of(range, |kind| kind.named = false),
            Err(_) => self.forget(range),
        }
    }

    /// Unmaps what is not kept in the range: that was unmapped before, as far as the program knows. From
    /// the end on: the kernel refuses a range that reaches too far before it has done anything.
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
                unsafe { self.kernel.munmap(start, to - start) }?;
            }
            to = next;
        }
        Ok(())
    }
}
