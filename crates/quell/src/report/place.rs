//! Places: the keys by which the shootdowns of a trace are summed up.

use quell_event::Cause;
use quell_event::trace::EventRow;

use super::mappings::Mappings;

/// The key of a shootdown, for regions, stacks and sources.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub(super) pid: u32,
    pub(super) cause: Cause,
    pub(super) user_stack: i32,
    /// Whether the memory is the culprit's own.
    own: bool,
    pub(super) at: FlushedRange,
}

/// The memory that was flushed.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum FlushedRange {
    /// A whole address space.
    Everything,
    /// A range of a mapping with this name.
    Mapped(u32),
    /// Any other range.
    Elsewhere,
}

impl Place {
    pub(crate) fn of_row(row: &EventRow, mappings: &Mappings) -> Self {
        // Flushes for a whole address space that comes or goes belong to no mapping.
        let life = matches!(
            row.cause,
            Cause::Kernel | Cause::Exit | Cause::Exec | Cause::Fork
        );
        // Addresses of another address space can't be looked up in the culprit's mappings.
        let mapped = if life || !row.own_mm {
            None
        } else {
            mappings.name_of_range(row)
        };
        let at = match mapped {
            Some(name) => FlushedRange::Mapped(name),
            None if row.is_full() => FlushedRange::Everything,
            None => FlushedRange::Elsewhere,
        };
        Self {
            pid: row.pid,
            cause: row.cause,
            user_stack: row.user_stack,
            own: row.own_mm,
            at,
        }
    }

    pub(super) fn is_own(&self) -> bool {
        self.own
    }

    /// Whether a whole address space was flushed. A full flush by brk(2) does not count: it is of the heap.
    pub(super) fn is_full(&self) -> bool {
        self.at == FlushedRange::Everything
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that a flush by brk is of the heap however large it was, that any other full flush is of everything, and
    /// that the addresses of another process say nothing.
    #[test]
    fn brk_is_of_the_heap() {
        let mappings = Mappings::default();
        let at = |cause, end, own_mm| {
            let row = EventRow {
                cause,
                start: 0x1000,
                end,
                own_mm,
                ..EventRow::default()
            };
            Place::of_row(&row, &mappings).at
        };
        let heap = at(Cause::Brk, 0x2000, true);
        assert!(matches!(heap, FlushedRange::Mapped(_)));
        assert!(at(Cause::Brk, u64::MAX, true) == heap);
        assert!(at(Cause::Munmap, u64::MAX, true) == FlushedRange::Everything);
        assert!(at(Cause::Brk, 0x2000, false) == FlushedRange::Elsewhere);
    }
}
