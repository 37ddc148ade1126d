//! Waiting for ranges that others unmap and give back, with an end.

use crate::kernel::{Kernel, Threads};
use crate::shim::Shim;
use crate::sync::{AtomicUsize, Ordering};

/// Whoever waits looks so often, for so many ms each.
const MIN_LOOKS: u32 = 200;
const SLEEP_MS: u32 = 10;
/// And so long at least: whatever else leaves ends such a sleep, and so do signals.
const MIN_WAIT_NS: u64 = if cfg!(loom) { 0 } else { 2_000_000_000 };

/// The patience that is left, for one wait.
#[derive(Default)]
pub(crate) struct Patience {
    looks: u32,
    began: Option<u64>,
}

impl Patience {
    /// Whether it is at its end: both so many looks and so long. To be asked once before each sleep, as it counts them.
    pub(crate) fn is_over(&mut self, kernel: &impl Threads) -> bool {
        let now = kernel.now_ns();
        let waited = now.saturating_sub(*self.began.get_or_insert(now));
        let over = self.looks >= MIN_LOOKS && waited >= MIN_WAIT_NS;
        self.looks += 1;
        over
    }
}

impl<K: Kernel> Shim<K> {
    /// Waits, while another thread forks and has the lock, for ranges that others are unmapping, giving back or
    /// marking: none begins then. They come to an end: of the lock they only wait so long as
    /// [`Lock::take`](crate::lock::Lock::take) does.
    pub(crate) fn wait_for_leavers(&self) {
        let me = self.kernel.thread_id();
        let other = |thread: usize| thread != 0 && thread != me;
        let unmapping = |place: &AtomicUsize| other(place.load(Ordering::SeqCst));
        self.wait_while(|| {
            self.lock.is_forking()
                && !self.is_mine()
                && (other(self.leavers.thread_at_it())
                    || unmapping(&self.marking)
                    || self.unmapping.iter().any(unmapping))
        });
    }

    /// Whether another thread gives back or offers.
    pub(crate) fn is_other_at_leavers(&self) -> bool {
        ![0, self.kernel.thread_id()].contains(&self.leavers.thread_at_it())
    }

    /// Sleeps until somebody leaves, unless one has since `seen` was read, or for some milliseconds.
    pub(crate) fn sleep_until_left(&self, seen: u32) {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        self.kernel.sleep_while(&self.left, seen, SLEEP_MS);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }

    /// Waits as long as this is so, and for as long as [`Patience`] lasts. Whether it came to an end in that time. What ends it
    /// must call [`Shim::somebody_left`], or is seen only [`SLEEP_MS`] later.
    pub(crate) fn wait_while(&self, there: impl Fn() -> bool) -> bool {
        let mut patience = Patience::default();
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let ended = loop {
            let seen = self.left.load(Ordering::SeqCst);
            if !there() {
                break true;
            }
            if patience.is_over(&self.kernel) {
                break false;
            }
            self.kernel.sleep_while(&self.left, seen, SLEEP_MS);
        };
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        ended
    }
}
