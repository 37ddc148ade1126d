//! Who has a file open, so that no child of fork(2) gets it.

use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// The open files of this process.
pub(super) static OPEN_FILES: OpenFiles = OpenFiles {
    open: [const { AtomicUsize::new(0) }; 16],
    forking: AtomicU32::new(0),
    refused: AtomicU32::new(0),
};

/// Files that are open at this moment, by the threads that have them. A child of fork(2) would have them for life.
pub(super) struct OpenFiles {
    /// 0 is a place for one; one more than there are places for is read all the same.
    open: [AtomicUsize; 16],
    forking: AtomicU32,
    /// How often a file was not opened for that.
    refused: AtomicU32,
}

impl OpenFiles {
    /// Runs work that opens one; none while a thread forks. The place is taken before it is asked whether one does, and
    /// [`OpenFiles::fork_begins`] says so before it looks at the places: so one of the two sees the other.
    pub(super) fn with_file_open<T>(
        &self,
        me: usize,
        work: impl FnOnce() -> Option<T>,
    ) -> Option<T> {
        let (set, get) = (Ordering::SeqCst, Ordering::Relaxed);
        let free = |place: &&AtomicUsize| place.compare_exchange(0, me, set, get).is_ok();
        let place = self.open.iter().find(free);
        let done = match self.forking.load(Ordering::SeqCst) {
            0 => work(),
            _ => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                None
            }
        };
        if let Some(place) = place {
            place.store(0, Ordering::SeqCst);
        }
        done
    }

    /// So often none was opened, as a thread forked: who finds it changed knows why he could not read one.
    pub(super) fn refused_count(&self) -> u32 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Opens none from now on, and waits until the other threads have none; for ten sleeps at most, as one may be stopped.
    pub(super) fn fork_begins(&self, me: usize, sleep: impl Fn()) {
        /// Reading one takes some microseconds.
        const MAX_LOOKS: u32 = 10;
        self.forking.fetch_add(1, Ordering::SeqCst);
        for _ in 0..MAX_LOOKS {
            if !self.are_open(me) {
                break;
            }
            sleep();
        }
    }

    /// In the parent or the child: files are opened again, once no other thread forks.
    pub(super) fn fork_is_over(&self, child: bool) {
        if child {
            // Of threads that the child does not have; and so are other forks, but those below this handler, which find
            // nothing to take off.
            let all = self.open.iter();
            all.for_each(|place| place.store(0, Ordering::SeqCst));
            self.forking.store(0, Ordering::SeqCst);
            return;
        }
        let less = |forks: u32| Some(forks.saturating_sub(1));
        let order = Ordering::SeqCst;
        let _ = self.forking.fetch_update(order, order, less);
    }

    /// Whether another thread has one open.
    fn are_open(&self, me: usize) -> bool {
        let other = |place: &AtomicUsize| ![0, me].contains(&place.load(Ordering::SeqCst));
        self.open.iter().any(other)
    }
}
