//! What a signal handler changed while its own thread held the lock: told to the holder, who acts on
//! it before it lets go.
//!
//! Only handlers in the holder's thread write here, so they are over before it reads on.

use core::sync::atomic::{AtomicUsize, Ordering};

use crate::Range;

const PLACES: usize = 16;

pub(crate) struct Late {
    ranges: [[AtomicUsize; 2]; PLACES],
    count: AtomicUsize,
}

impl Default for Late {
    fn default() -> Self {
        Late {
            ranges: [const { [const { AtomicUsize::new(0) }; 2] }; PLACES],
            count: AtomicUsize::new(0),
        }
    }
}

impl Late {
    /// Notes that nothing is known of this range any more. False if there is no room.
    pub(crate) fn add(&self, range: Range) -> bool {
        let place = self.count.fetch_add(1, Ordering::Relaxed);
        let Some([start, end]) = self.ranges.get(place) else {
            self.count.fetch_sub(1, Ordering::Relaxed);
            return false;
        };
        start.store(range.start, Ordering::Relaxed);
        end.store(range.end, Ordering::Relaxed);
        true
    }

    /// Hands each range to `forget`, also those that come meanwhile.
    pub(crate) fn each(&self, mut forget: impl FnMut(Range)) {
        let mut done = 0;
        loop {
            let count = self.count.load(Ordering::Relaxed);
            if count == 0 {
                return;
            }
            for [start, end] in &self.ranges[done.min(PLACES)..count.min(PLACES)] {
                forget(Range {
                    start: start.load(Ordering::Relaxed),
                    end: end.load(Ordering::Relaxed),
                });
            }
            done = count;
            let all = self
                .count
                .compare_exchange(count, 0, Ordering::Relaxed, Ordering::Relaxed);
            if all.is_ok() {
                return;
            }
        }
    }
}
