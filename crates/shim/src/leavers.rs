//! The regions that leave, in one batch, and the one thread that works on it.

use crate::Part;
use crate::nodes::{NO_NODE, NodeId};
use crate::region::Region;
use crate::sync::{AtomicBool, AtomicUsize, Guarded, Ordering};

/// In one call, with one flush. process_madvise(2) takes 1,024 (UIO_MAXIOV); but between the look whether they are ours and
/// the call a thread may map over one past the library, and would lose that, so few are looked at before it.
pub(crate) const BATCH_REGIONS: usize = if cfg!(loom) { 4 } else { 64 };

/// The regions that leave to be given back or offered, in memory that is there: a signal stack may be small.
pub(crate) struct Leavers {
    /// The thread that gives back or offers; 0 is none.
    taken: AtomicUsize,
    /// The table does not know the result yet, as the lock was not to be had.
    pub(crate) untold: AtomicBool,
    batch: Guarded<&'static mut Batch>,
}

pub(crate) struct Batch {
    pub(crate) ids: [NodeId; BATCH_REGIONS],
    pub(crate) ranges: [Part; BATCH_REGIONS],
    pub(crate) fingerprints: [u64; BATCH_REGIONS],
    pub(crate) count: usize,
    /// From this index on they are somebody else's.
    pub(crate) known: usize,
    /// Whether it had been offered to the kernel before.
    pub(crate) offered: [bool; BATCH_REGIONS],
    /// The treatment of the first `done` of them, of which the table is not told yet.
    pub(crate) deed: BatchDeed,
    pub(crate) done: usize,
}

/// How a batch was treated. Nothing is zero: then a batch that is new is all zeros, and no part of the library's file.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum BatchDeed {
    Nothing = 0,
    GaveBack,
    Offered,
}

impl Batch {
    pub(crate) const EMPTY: Batch = Batch {
        ids: [NO_NODE; BATCH_REGIONS],
        ranges: [Part { start: 0, len: 0 }; BATCH_REGIONS],
        fingerprints: [0; BATCH_REGIONS],
        count: 0,
        known: 0,
        offered: [false; BATCH_REGIONS],
        deed: BatchDeed::Nothing,
        done: 0,
    };

    /// Empties it. The table has been told of what it held before, and each other field is written again before it is read.
    pub(crate) fn clear(&mut self) {
        self.count = 0;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// The first so many.
    pub(crate) fn first_parts(&self, count: usize) -> &[Part] {
        &self.ranges[..count]
    }

    /// Adds one that leaves; there is room.
    pub(crate) fn add(&mut self, id: NodeId, region: &Region) {
        self.ids[self.count] = id;
        self.fingerprints[self.count] = region.fingerprint;
        self.ranges[self.count] = region.range.into();
        self.offered[self.count] = region.offered;
        self.count += 1;
    }

    /// Notes how the first so many were treated.
    pub(crate) fn note_deed(&mut self, deed: BatchDeed, done: usize) {
        (self.deed, self.done) = (deed, done);
    }

    pub(crate) fn swap_entries(&mut self, one: usize, other: usize) {
        self.ids.swap(one, other);
        self.ranges.swap(one, other);
        self.fingerprints.swap(one, other);
        self.offered.swap(one, other);
    }
}

impl Leavers {
    pub(crate) fn new(batch: &'static mut Batch) -> Self {
        Leavers {
            taken: AtomicUsize::new(0),
            untold: AtomicBool::new(false),
            batch: Guarded::new(batch),
        }
    }

    /// The thread that is at it; 0 is none.
    pub(crate) fn thread_at_it(&self) -> usize {
        self.taken.load(Ordering::SeqCst)
    }

    pub(crate) fn are_there(&self) -> bool {
        self.thread_at_it() != 0
    }

    pub(crate) fn are_of(&self, thread: usize) -> bool {
        self.thread_at_it() == thread
    }

    pub(crate) fn have_untold(&self) -> bool {
        self.untold.load(Ordering::Relaxed)
    }

    /// Works on the batch, unless somebody is at it. A handler that comes meanwhile finds it taken.
    pub(crate) fn if_free<T>(&self, me: usize, work: impl FnOnce(&mut Batch) -> T) -> Option<T> {
        let order = (Ordering::SeqCst, Ordering::Relaxed);
        let free = self.taken.compare_exchange(0, me, order.0, order.1);
        free.ok()?;
        // SAFETY: `taken` is ours, so nobody else is at it.
        let done = unsafe { self.batch.with(|batch| work(batch)) };
        self.taken.store(0, Ordering::SeqCst);
        Some(done)
    }

    /// In the child of fork(2): the thread that was at it is gone, unless it is this one. So is its result that was not
    /// told yet, also where nobody is at it any more: the table has it back on its shelves.
    pub(crate) fn abandon_in_child(&self, me: usize) {
        // Where nobody was at it and all is told, nothing is written: the child would copy a page for it.
        if !self.are_of(me) && (self.are_there() || self.have_untold()) {
            // SAFETY: the thread that had it is not in this process.
            unsafe { self.batch.with(|batch| batch.deed = BatchDeed::Nothing) };
            self.untold.store(false, Ordering::Relaxed);
            self.taken.store(0, Ordering::Relaxed);
        }
    }
}
