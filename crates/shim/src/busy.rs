//! Ranges of the program's that are being zeroed, or whose protection is being changed, at this moment and
//! without the lock.
//!
//! To the kernel each such call is one step, since it holds the lock of the address space meanwhile. Ours are
//! several: looked up, done, noted. What is not written when it is looked up can be when it is zeroed, and of
//! two mprotect(2) at once the second one's note may be of the first. So whoever changes a range waits until
//! nobody is at it.

use crate::Range;
use crate::going::Place;
use crate::kernel::{Errno, Kernel};
use crate::shim::{Locked, Shim};
use crate::sync::Ordering;
use crate::table::Table;

/// So many threads at once; one more does without, or waits.
const PLACES: usize = if cfg!(loom) { 2 } else { 32 };
/// Whoever waits looks so often, for so many ms each: zeroing 64 MB takes some 20 ms.
const WAITS: u32 = 200;
const WAIT_MS: u32 = 10;

pub(crate) struct Busy {
    all: [Option<(Range, usize)>; PLACES],
    count: usize,
}

impl Busy {
    pub(crate) const NONE: Busy = Busy {
        all: [None; PLACES],
        count: 0,
    };

    /// Who is at something in `range`, other than this thread: that would be a handler that has interrupted it.
    pub(crate) fn other(&self, range: Range, me: usize) -> Option<usize> {
        if self.count == 0 {
            return None;
        }
        let mut all = self.all.iter().flatten();
        all.find(|(one, thread)| *thread != me && one.and(range).is_some())
            .map(|(_, thread)| *thread)
    }

    /// Whether anybody is, this thread too.
    pub(crate) fn is_at(&self, range: Range) -> bool {
        self.count > 0
            && self
                .all
                .iter()
                .flatten()
                .any(|(one, _)| one.and(range).is_some())
    }

    /// None where there are too many.
    fn put(&mut self, range: Range, thread: usize) -> Option<Place> {
        let place = self.all.iter().position(Option::is_none)?;
        self.all[place] = Some((range, thread));
        self.count += 1;
        Some(Place(place))
    }

    fn take(&mut self, place: Place) {
        self.count -= usize::from(self.all[place.0].take().is_some());
    }

    /// The other threads are gone (fork(2)).
    pub(crate) fn only(&mut self, thread: usize) {
        for place in &mut self.all {
            if place.is_some_and(|(_, of)| of != thread) {
                *place = None;
                self.count -= 1;
            }
        }
    }
}

/// How a range is begun with.
pub(crate) enum Begun {
    Yes(Place),
    /// Somebody is at it, or there are too many.
    Later,
    /// By this thread itself, below the handler that we are in; or the table is not to be had.
    No,
}

impl<K: Kernel> Shim<K> {
    /// Begins with a range that is writable memory of the program's, if nobody is at it.
    pub(crate) fn begin_to_wipe(&self, range: Range) -> Option<Place> {
        let me = self.kernel.thread();
        let begun = self.try_locked(|table| {
            let may = table.all_live(range, |region| region.kind.is_read_write())
                && !table.busy.is_at(range);
            if may { table.busy.put(range, me) } else { None }
        });
        match begun {
            Locked::Done(place) => place,
            Locked::Mine | Locked::Busy => None,
        }
    }

    /// Begins with a range as soon as nobody is at it, and changes the table by the way. None where that can't be:
    /// then nothing is known of the range any more.
    pub(crate) fn begin_to_change(
        &self,
        range: Range,
        change: impl Fn(&mut Table),
    ) -> Option<Place> {
        let me = self.kernel.thread();
        for _ in 0..WAITS {
            let seen = self.left.load(Ordering::Acquire);
            let begun = self.locked(|table| {
                if table.busy.other(range, me).is_some() {
                    return Begun::Later;
                }
                if table.busy.is_at(range) {
                    return Begun::No;
                }
                match table.busy.put(range, me) {
                    Some(place) => {
                        change(table);
                        Begun::Yes(place)
                    }
                    None => Begun::Later,
                }
            });
            match begun {
                Locked::Done(Begun::Yes(place)) => return Some(place),
                Locked::Done(Begun::Later) => self.wait_for_busy(seen),
                Locked::Done(Begun::No) | Locked::Mine | Locked::Busy => break,
            }
        }
        self.forget(range);
        None
    }

    /// It is over; `change` is what the table has to know of it.
    pub(crate) fn end(&self, place: Place, change: impl FnOnce(&mut Table)) {
        let _ = self.locked(|table| {
            change(table);
            table.busy.take(place);
        });
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.somebody_left();
        }
    }

    /// Waits until no other thread is at anything in a range.
    ///
    /// # Errors
    ///
    /// ENOMEM where one does not come to an end.
    pub(crate) fn wait_until_idle(&self, range: Range) -> Result<(), Errno> {
        let me = self.kernel.thread();
        for _ in 0..WAITS {
            let seen = self.left.load(Ordering::Acquire);
            match self.locked(|table| table.busy.other(range, me)) {
                Locked::Done(Some(_)) => self.wait_for_busy(seen),
                Locked::Done(None) | Locked::Mine | Locked::Busy => return Ok(()),
            }
        }
        Err(Errno::ENOMEM)
    }

    fn wait_for_busy(&self, seen: u32) {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        self.kernel.sleep(&self.left, seen, WAIT_MS);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}
