//! Ranges that are being unmapped at this moment, without the lock.
//!
//! They are no regions any more: as soon as the kernel has unmapped one, it may give its addresses to another thread,
//! or to a signal handler in this one, before the one that unmapped it has the lock again. Whoever wants a certain
//! address waits until the one in progress there is over; an address that the kernel has just given out shows that it
//! is.

use crate::Range;
use crate::region::Region;

/// So many threads may unmap at once; one more waits.
pub(crate) const MAX_UNMAPPING_THREADS: usize = if cfg!(loom) { 2 } else { 32 };

/// A place in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnmappingSlot(usize);

impl UnmappingSlot {
    pub(crate) fn index(self) -> usize {
        self.0
    }

    pub(crate) fn bit(self) -> u32 {
        1 << self.0
    }

    /// Calls `of` for each slot of a sum of bits.
    pub(crate) fn for_each_bit(bits: u32, mut of: impl FnMut(UnmappingSlot)) {
        (0..MAX_UNMAPPING_THREADS)
            .map(UnmappingSlot)
            .filter(|place| bits & place.bit() != 0)
            .for_each(&mut of);
    }
}

#[derive(Clone, Copy)]
struct Unmapping {
    region: Region,
    thread: usize,
    /// The kernel has mapped something new in it since, so it is unmapped.
    given_out: bool,
}

pub(crate) struct InFlight {
    places: [Option<Unmapping>; MAX_UNMAPPING_THREADS],
    /// How many are taken: mostly none, and each new mapping asks.
    taken: usize,
}

impl InFlight {
    pub(crate) const EMPTY: InFlight = InFlight {
        places: [None; MAX_UNMAPPING_THREADS],
        taken: 0,
    };

    /// The slots that are taken.
    fn taken_slots(&self) -> impl Iterator<Item = &Unmapping> {
        let looked_at = if self.taken == 0 {
            0
        } else {
            MAX_UNMAPPING_THREADS
        };
        self.places[..looked_at].iter().flatten()
    }

    pub(crate) fn free_slot(&self) -> Option<UnmappingSlot> {
        self.places
            .iter()
            .position(Option::is_none)
            .map(UnmappingSlot)
    }

    /// This thread is about to unmap it.
    pub(crate) fn put(&mut self, place: UnmappingSlot, region: Region, thread: usize) {
        let before = self.places[place.0].replace(Unmapping {
            region,
            thread,
            given_out: false,
        });
        self.taken += usize::from(before.is_none());
    }

    /// Its thread has come back from it. None where it was given out before.
    pub(crate) fn take(&mut self, place: UnmappingSlot) -> Option<Region> {
        let one = self.places[place.0].take()?;
        self.taken -= 1;
        (!one.given_out).then_some(one.region)
    }

    /// The kernel has just mapped something new at `range`. It has not replaced anything there: nobody but its own
    /// thread unmaps a range of this list, and whoever names an address waits for that.
    pub(crate) fn note_given_out(&mut self, range: Range) {
        if self.taken == 0 {
            return;
        }
        for one in self.places.iter_mut().flatten() {
            one.given_out |= one.region.range.intersection(range).is_some();
        }
    }

    /// Who is unmapping something in `range`.
    pub(crate) fn thread_unmapping_in(&self, range: Range) -> Option<usize> {
        self.taken_slots()
            .find(|one| !one.given_out && one.region.range.intersection(range).is_some())
            .map(|one| one.thread)
    }

    /// The part of `range` that is being unmapped, the last by its address.
    pub(crate) fn last_range_in(&self, range: Range) -> Option<Range> {
        let all = self.taken_slots().filter(|one| !one.given_out);
        all.filter_map(|one| one.region.range.intersection(range))
            .max_by_key(|part| part.start)
    }

    /// The slot of a range that another thread is unmapping.
    pub(crate) fn slot_of_another(&self, thread: usize) -> Option<UnmappingSlot> {
        let of_another = |one: &Unmapping| one.thread != thread;
        let mut places = self.places.iter();
        let place = places.position(|place| place.as_ref().is_some_and(of_another));
        place.map(UnmappingSlot)
    }
}
