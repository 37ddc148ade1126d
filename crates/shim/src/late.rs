//! What a signal handler changed while its own thread held the lock: told to the holder, who acts on
//! it before it lets go. What comes between that and letting go, the next holder finds, before it looks
//! at anything else.
//!
//! Only handlers in the holder's thread write here, so they are over before it reads on.

use crate::Range;
use crate::sync::{AtomicUsize, Ordering};

const PLACES: usize = 16;

pub(crate) struct Late {
    ranges: [[AtomicUsize; 2]; PLACES],
    count: AtomicUsize,
}

impl Default for Late {
    fn default() -> Self {
        Late {
            ranges: core::array::from_fn(|_| [AtomicUsize::new(0), AtomicUsize::new(0)]),
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

    /// Hands each range to `forget`, also those that come meanwhile. Only with the lock.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that what a handler adds while ranges are handed out is handed out too, each once, and
    /// that the seventeenth is refused.
    #[test]
    fn each_once() {
        let late = Late::default();
        let range = |n| Range {
            start: n,
            end: n + 1,
        };
        for n in 1..=PLACES {
            assert!(late.add(range(n)));
        }
        assert!(!late.add(range(99)));
        let mut seen = Vec::new();
        late.each(|r| seen.push(r.start));
        assert_eq!(seen, (1..=PLACES).collect::<Vec<_>>());

        assert!(late.add(range(1)));
        let mut seen = Vec::new();
        late.each(|r| {
            seen.push(r.start);
            if r.start < 5 {
                assert!(late.add(range(r.start + 1)));
            }
        });
        assert_eq!(seen, [1, 2, 3, 4, 5]);
        late.each(|_| panic!("nothing is left"));
    }
}
