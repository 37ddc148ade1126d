//! What tells one place in memory that a shootdown was for from another.

use quell_event::Cause;
use quell_event::trace::Row;

use super::mappings::Mappings;

/// What tells shootdowns apart for regions, stacks and origins.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub(super) pid: u32,
    pub(super) cause: Cause,
    pub(super) user_stack: i32,
    /// The memory is the culprit's own.
    own: bool,
    pub(super) at: At,
}

/// What was flushed.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum At {
    /// A whole address space.
    Everything,
    /// A range of a mapping with this name.
    Mapped(u32),
    /// Any other range.
    Elsewhere,
}

impl Place {
    pub(crate) fn of(row: &Row, mappings: &Mappings) -> Self {
        // what comes or goes with an address space is not of any mapping
        let life = matches!(
            row.cause,
            Cause::Kernel | Cause::Exit | Cause::Exec | Cause::Fork
        );
        // the addresses of another address space say nothing of the culprit's mappings
        let mapped = if life || !row.own_mm {
            None
        } else {
            mappings.of(row)
        };
        let at = match mapped {
            Some(name) => At::Mapped(name),
            None if row.full() => At::Everything,
            None => At::Elsewhere,
        };
        Self {
            pid: row.pid,
            cause: row.cause,
            user_stack: row.user_stack,
            own: row.own_mm,
            at,
        }
    }

    pub(super) fn own(&self) -> bool {
        self.own
    }

    pub(super) fn full(&self) -> bool {
        self.at == At::Everything
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that what brk gives back is the heap however much it was, that any other flush of everything is of everything, and
    /// that the addresses of another process say nothing.
    #[test]
    fn brk_is_of_the_heap() {
        let mappings = Mappings::default();
        let at = |cause, end, own_mm| {
            let row = Row {
                cause,
                start: 0x1000,
                end,
                own_mm,
                ..Row::default()
            };
            Place::of(&row, &mappings).at
        };
        let heap = at(Cause::Brk, 0x2000, true);
        assert!(matches!(heap, At::Mapped(_)));
        assert!(at(Cause::Brk, u64::MAX, true) == heap);
        assert!(at(Cause::Munmap, u64::MAX, true) == At::Everything);
        assert!(at(Cause::Brk, 0x2000, false) == At::Elsewhere);
    }
}
