//! One range of addresses, as far as it is known.

use crate::Range;
use crate::linux::{PROT_NONE, PROT_READ, PROT_WRITE};

/// Where a region is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum State {
    /// The program has it: private, anonymous, with no attribute but those in [`Kind`].
    Live,
    /// The program has unmapped it. It is still mapped, with its content, and may serve another mapping.
    Dirty,
    /// The same, but nobody has looked yet whether its pages are pinned, so nothing is written there, and it serves
    /// nobody.
    Fresh,
    /// The same, and it is being given back and unmapped, offered to the kernel, or marked, at this moment, without the lock.
    Leaving,
    /// The same, and it was unmapped meanwhile: nothing is known of it once it has left.
    Lost,
    /// A page of the library's own beside memory of the program's, which shows the kind of that mapping (see `proof`).
    Anchor,
}

/// The properties that must be alike for a later mapping to be served from this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    /// `PROT_…`.
    pub(crate) prot: u8,
    /// `MAP_NORESERVE`.
    pub(crate) noreserve: bool,
    /// The library has asked for huge pages, by [`Settings::huge`](crate::Settings::huge).
    pub(crate) huge: bool,
    /// The program has asked for huge pages, for none, or for no core dump of it. That changes nothing of its reads and
    /// writes; but it would stay with the memory, so this is never kept for another mapping.
    pub(crate) advised: bool,
    /// The program has given it a name for /proc/PID/maps, which is taken away before it is kept.
    pub(crate) named: bool,
}

impl Kind {
    pub(crate) fn is_read_write(self) -> bool {
        i32::from(self.prot) == PROT_READ | PROT_WRITE
    }

    /// Whether it may serve a later mapping, once it is unmapped.
    pub(crate) fn may_be_kept(self) -> bool {
        self.is_read_write() && !self.advised
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Region {
    pub(crate) range: Range,
    pub(crate) kind: Kind,
    pub(crate) state: State,
    /// It was served from kept memory, so that its pages were in memory before the program touched them.
    pub(crate) was_served: bool,
    /// A hash of its content when it was unmapped, by which it is known until it is marked; 0 is marked, or not kept.
    pub(crate) fingerprint: u64,
    /// Which look for pinned pages was the next one when it was kept (see `Table::pin_looks`).
    pub(crate) kept_before_look: u32,
    /// It is kept, and the kernel may take its pages where memory is short (see `offer`).
    pub(crate) offered: bool,
}

impl Region {
    /// Memory of the program's that nothing is known of yet.
    pub(crate) const UNKNOWN_LIVE: Region = Region {
        range: Range { start: 0, end: 0 },
        kind: Kind {
            prot: PROT_NONE as u8,
            noreserve: false,
            huge: false,
            advised: false,
            named: false,
        },
        state: State::Live,
        was_served: false,
        fingerprint: 0,
        kept_before_look: 0,
        offered: false,
    };

    /// Whether `next`, behind it, is more of the same. To the kernel it may be another mapping: most are one
    /// where they touch, and where mremap(2) finds two, they are moved one by one.
    pub(crate) fn goes_on_in(&self, next: &Region) -> bool {
        let marked = self.fingerprint == 0 && next.fingerprint == 0;
        let touches = self.range.end == next.range.start;
        let alike = self.kind == next.kind && self.offered == next.offered;
        touches && marked && alike && self.state == next.state
    }
}
