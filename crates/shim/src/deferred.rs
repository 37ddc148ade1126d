//! Changes that were made while the lock was held by somebody who does not go on until we do: the holder is told of
//! them, and acts on them before he lets go. The next holder finds any that come between that and letting go, before he
//! looks at anything else.
//!
//! That is a signal handler in the holder's own thread; and any thread while another forks, since that
//! one may wait for a lock of the C library's which we have, in a handler that interrupted malloc(3).

use crate::Range;
use crate::sync::{AtomicBool, AtomicUsize, Ordering, spin_pause};

const MAX_DEFERRED_RANGES: usize = if cfg!(loom) { 4 } else { 512 };
/// Who has taken a place fills it at once. So often is looked whether he has: some milliseconds.
const MAX_FILL_LOOKS: u32 = 100_000;

/// For each the first byte plus one, 0 for a place that is not filled yet; and the end.
pub(crate) type DeferredRanges = [[AtomicUsize; 2]; MAX_DEFERRED_RANGES];

/// No place is filled: all zeros.
#[cfg(not(loom))]
#[allow(
    clippy::declare_interior_mutable_const,
    reason = "each that it is written into has its own"
)]
pub(crate) const NO_DEFERRED_RANGES: DeferredRanges =
    [const { [const { AtomicUsize::new(0) }; 2] }; MAX_DEFERRED_RANGES];

pub(crate) struct Deferred {
    ranges: &'static DeferredRanges,
    count: AtomicUsize,
    /// There were more than there is room for.
    all: AtomicBool,
}

#[cfg(any(test, loom))]
impl Default for Deferred {
    fn default() -> Self {
        let none = || [AtomicUsize::new(0), AtomicUsize::new(0)];
        Deferred::new(Box::leak(Box::new(core::array::from_fn(|_| none()))))
    }
}

impl Deferred {
    /// A list with room for those ranges, of which none is filled.
    pub(crate) fn new(ranges: &'static DeferredRanges) -> Deferred {
        Deferred {
            ranges,
            count: AtomicUsize::new(0),
            all: AtomicBool::new(false),
        }
    }

    /// Notes a range for the holder of the lock, who does with it as its list says. False if there is no room. Anybody may do
    /// so, without the lock.
    pub(crate) fn add(&self, range: Range) -> bool {
        let (set, get) = (Ordering::AcqRel, Ordering::Acquire);
        let more = |count: usize| (count < MAX_DEFERRED_RANGES).then_some(count + 1);
        let Ok(place) = self.count.fetch_update(set, get, more) else {
            return false;
        };
        let [start, end] = &self.ranges[place];
        end.store(range.end, Ordering::Relaxed);
        start.store(range.start + 1, Ordering::Release);
        true
    }

    /// Notes that nothing is known of any range any more.
    pub(crate) fn add_all(&self) {
        self.all.store(true, Ordering::Release);
    }

    /// Hands each range to `forget`, also those that come meanwhile. Only with the lock. False if somebody took a place
    /// and did not fill it: his change is not known, and the library has to go off. It ends: there are only so many places, and
    /// they are free again when it is over.
    pub(crate) fn take_each(&self, mut forget: impl FnMut(Range)) -> bool {
        if self.all.load(Ordering::Relaxed) && self.all.swap(false, Ordering::Acquire) {
            forget(Range::ALL);
        }
        let mut done = 0;
        loop {
            let count = self.count.load(Ordering::Acquire);
            if count == 0 {
                return true;
            }
            for [start, end] in &self.ranges[done..count] {
                let mut looks = 0;
                let start = loop {
                    match start.swap(0, Ordering::Acquire) {
                        0 if looks == MAX_FILL_LOOKS => return false,
                        0 => spin_pause(),
                        start => break start - 1,
                    }
                    looks += 1;
                };
                let end = end.load(Ordering::Relaxed);
                forget(Range { start, end });
            }
            done = count;
            let (set, get) = (Ordering::AcqRel, Ordering::Acquire);
            if self.count.compare_exchange(count, 0, set, get).is_ok() {
                return true;
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Check that after more than fit, all is to be forgotten, once.
    #[test]
    fn all_of_it() {
        let late = Deferred::default();
        late.add_all();
        let mut seen = Vec::new();
        assert!(late.take_each(|r| seen.push(r.len())) && late.take_each(|r| seen.push(r.len())));
        assert_eq!(seen, [usize::MAX]);
    }

    /// Check that a range that a handler adds while ranges are handed out is handed out too, each once, and that one
    /// too many is refused.
    #[test]
    fn each_once() {
        let late = Deferred::default();
        let range = |n| Range {
            start: n,
            end: n + 1,
        };
        for n in 1..=MAX_DEFERRED_RANGES {
            assert!(late.add(range(n)));
        }
        assert!(!late.add(range(999)));
        let mut seen = Vec::new();
        assert!(late.take_each(|r| seen.push(r.start)));
        assert_eq!(seen, (1..=MAX_DEFERRED_RANGES).collect::<Vec<_>>());

        assert!(late.add(range(1)));
        let mut seen = Vec::new();
        let all = late.take_each(|r| {
            seen.push(r.start);
            if r.start < 5 {
                assert!(late.add(range(r.start + 1)));
            }
        });
        assert!(all);
        assert_eq!(seen, [1, 2, 3, 4, 5]);
        assert!(late.take_each(|_| panic!("nothing is left")));
    }
}
