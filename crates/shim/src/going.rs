//! Ranges that are being unmapped at this moment, without the lock.
//!
//! They are no regions any more: as soon as the kernel has unmapped one, it may give its addresses to
//! another thread, before the one that unmapped it has the lock again. Whoever wants a certain address
//! waits until the one in progress there is over.

use crate::Range;
use crate::region::Region;

/// So many threads at once; one more waits.
const PLACES: usize = if cfg!(loom) { 2 } else { 32 };

/// A place in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place(usize);

impl Place {
    pub(crate) fn bit(self) -> u32 {
        1 << self.0
    }

    /// Those of a sum of bits.
    pub(crate) fn each(bits: u32, mut of: impl FnMut(Place)) {
        (0..PLACES)
            .map(Place)
            .filter(|place| bits & place.bit() != 0)
            .for_each(&mut of);
    }
}

pub(crate) struct Going([Option<(Region, usize)>; PLACES]);

impl Going {
    pub(crate) const NONE: Going = Going([None; PLACES]);

    pub(crate) fn free(&self) -> Option<Place> {
        self.0.iter().position(Option::is_none).map(Place)
    }

    /// This thread is about to unmap it.
    pub(crate) fn put(&mut self, place: Place, region: Region, thread: usize) {
        self.0[place.0] = Some((region, thread));
    }

    /// It is over.
    pub(crate) fn take(&mut self, place: Place) -> Option<Region> {
        self.0[place.0].take().map(|(region, _)| region)
    }

    /// Who is unmapping something in `range`.
    pub(crate) fn in_range(&self, range: Range) -> Option<usize> {
        let mut all = self.0.iter().flatten();
        all.find(|(region, _)| region.range.and(range).is_some())
            .map(|(_, thread)| *thread)
    }

    /// The other threads are gone (fork(2)): so is what they were about.
    pub(crate) fn only(&mut self, thread: usize) {
        for place in &mut self.0 {
            if place.is_some_and(|(_, of)| of != thread) {
                *place = None;
            }
        }
    }
}
