//! fork(2): the child gets the tables as they are, and none of the threads that were at them.

use crate::Range;
use crate::kernel::Kernel;
use crate::lock::Taken;
use crate::shim::Shim;
use crate::sync::Ordering;

impl<K: Kernel> Shim<K> {
    /// Before fork(2): gives back what is kept, since its pages would be copied when they are used
    /// again, and takes the lock, so that the child finds the tables whole.
    pub fn before_fork(&self) {
        self.kernel.fork_begins();
        if self.is_off() {
            return;
        }
        if self.counters.dirty_bytes.get() > 0 {
            self.trim_to(0);
        }
        let forking = &self.lock.forking;
        match self.lock.take(&self.kernel) {
            Taken::Yes => {
                self.lock.forks_anew();
                forking.store(1, Ordering::Relaxed);
            }
            // A handler forks within a fork, or while this thread changes the tables: the child goes on
            // with that when its copy of the handler returns.
            Taken::Mine if self.is_mine() && forking.load(Ordering::Relaxed) > 0 => {
                forking.fetch_add(1, Ordering::Relaxed);
            }
            // Another's fork takes long. It is not waited for without an end (see `Lock`), so the lock is not ours,
            // and the child must not look at tables which that one may have begun to change by then.
            Taken::Mine | Taken::Busy => {}
        }
    }

    /// After fork(2), in the parent and in the child.
    pub fn after_fork(&self, child: bool) {
        // For good: whether a child still has a page is asked of the kernel each time, and of a child that is
        // gone, or runs another program, nothing is left there.
        self.forked.store(true, Ordering::Relaxed);
        self.kernel.fork_is_over(child);
        if !self.is_mine() {
            if child && self.lock.holder() != 0 {
                // Of a thread that the child does not have.
                self.turn_off();
            }
            return;
        }
        let forking = &self.lock.forking;
        if forking.load(Ordering::Relaxed) == 0 || forking.fetch_sub(1, Ordering::Relaxed) > 1 {
            return;
        }
        let me = self.kernel.thread();
        let others = child && self.leavers.abandon(me);
        self.finish(|table| {
            if child {
                table.going.only(me);
                // Whether the call that changed it was over, nobody knows.
                self.busy.give_up(Range::ALL, me, |gone| {
                    table.forget(gone, false);
                });
            }
            if others {
                table.stay();
            }
        });
    }

    /// Whether this thread holds the lock.
    fn is_mine(&self) -> bool {
        self.lock.holder() == self.kernel.thread()
    }
}
