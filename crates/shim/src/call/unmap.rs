//! munmap(2): memory that is known is kept.

use crate::Range;
use crate::kernel::{Errno, Kernel};
use crate::shim::{Locked, Shim};

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
}
