//! Ranges that are being unmapped at this moment, without the lock.
//!
//! They are no regions any more: as soon as the kernel has unmapped one, it may give its addresses to
//! another thread, or to a signal handler in this one, before the one that unmapped it has the lock again.
//! Whoever wants a certain address waits until the one in progress there is over; what the kernel has just
//! given out says that it is.

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

#[derive(Clone, Copy)]
struct One {
    region: Region,
    thread: usize,
    /// The kernel has given out some of it again, so it is unmapped.
    over: bool,
}

pub(crate) struct Going([Option<One>; PLACES]);

impl Going {
    pub(crate) const NONE: Going = Going([None; PLACES]);

    pub(crate) fn free(&self) -> Option<Place> {
        self.0.iter().position(Option::is_none).map(Place)
    }

    /// This thread is about to unmap it.
    pub(crate) fn put(&mut self, place: Place, region: Region, thread: usize) {
        self.0[place.0] = Some(One {
            region,
            thread,
            over: false,
        });
    }

    /// Its thread has come back from it. None where it was over before.
    pub(crate) fn take(&mut self, place: Place) -> Option<Region> {
        let one = self.0[place.0].take()?;
        (!one.over).then_some(one.region)
    }

    /// The kernel has just mapped something at `range`, which nobody asked for by its address.
    pub(crate) fn given_out(&mut self, range: Range) {
        for one in self.0.iter_mut().flatten() {
            one.over |= one.region.range.and(range).is_some();
        }
    }

    /// Who is unmapping something in `range`.
    pub(crate) fn in_range(&self, range: Range) -> Option<usize> {
        let mut all = self.0.iter().flatten();
        all.find(|one| !one.over && one.region.range.and(range).is_some())
            .map(|one| one.thread)
    }

    /// The other threads are gone (fork(2)): so is what they were about.
    pub(crate) fn only(&mut self, thread: usize) {
        for place in &mut self.0 {
            if place.is_some_and(|one| one.thread != thread) {
                *place = None;
            }
        }
    }
}
