//! fork(2): the child gets the tables as they are, and none of the threads that were at them.

use crate::kernel::Kernel;
use crate::lock::Taken;
use crate::shim::Shim;
use crate::sync::Ordering;
use crate::table::Table;

impl<K: Kernel> Shim<K> {
    /// Before fork(2), in the thread that forks: gives back kept memory, since its pages would be copied when they are used
    /// again, and takes the lock, so that the child finds the tables whole. [`Shim::after_fork`] gives it back, in both
    /// processes. Where another thread's fork has it for long the child is without the library.
    pub fn before_fork(&self) {
        // First, since whose it is may be asked by a file, and none is opened once the fork begins.
        if !self.is_off() && self.counters.dirty_bytes.get() > 0 {
            self.trim_all_soon();
        }
        self.kernel.fork_begins();
        if self.is_off() {
            return;
        }
        let forking = &self.lock.forking;
        match self.lock.take(&self.kernel) {
            Taken::Yes => {
                self.lock.note_new_fork();
                forking.store(1, Ordering::Relaxed);
            }
            // A handler forks within a fork of the thread below it.
            Taken::Mine if self.is_mine() && forking.load(Ordering::Relaxed) > 0 => {
                forking.fetch_add(1, Ordering::Relaxed);
            }
            // A handler forks while the thread below it changes the tables: the child goes on with that when its copy of
            // the handler returns. Or another's fork takes long: it is not waited for without an end (see `Lock`).
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
            if child {
                // Others may have changed the tables while they were copied, page by page: they are not whole, also where
                // the lock seems free. And nobody else is at anything in the child.
                self.turn_off();
                self.busy
                    .end_claims_of_others(self.kernel.thread_id(), |_| ());
            }
            return;
        }
        if child {
            self.orphaned.store(true, Ordering::Relaxed);
            self.note_news();
            self.lock.reset_sleepers();
        }
        let forking = &self.lock.forking;
        if forking.load(Ordering::Relaxed) == 0 || forking.fetch_sub(1, Ordering::Relaxed) > 1 {
            // Whoever holds the lock below this handler gives it back.
            return;
        }
        self.work_and_release(|_| ());
    }

    /// In the child: the other threads are gone, and their work with them.
    pub(crate) fn give_up_others(&self, table: &mut Table) {
        self.orphaned.store(false, Ordering::Relaxed);
        let me = self.kernel.thread_id();
        self.leavers.abandon_in_child(me);
        if self.marking.load(Ordering::SeqCst) != me {
            self.marking.store(0, Ordering::SeqCst);
        }
        // A thread that measures is gone, too.
        self.measure_again();
        self.forget_others();
        self.counters
            .clean_bytes
            .add(table.give_up_other_unmappings(me));
        for place in &self.unmapping {
            if place.load(Ordering::Relaxed) != me {
                place.store(0, Ordering::Relaxed);
            }
        }
        // Whether the call that changed it was over, nobody knows.
        self.busy.end_claims_of_others(me, |gone| {
            table.forget(gone, false);
        });
        if self.is_leaver(me) {
            // This handler has interrupted the one that gives back, offers or marks. That one goes on with its regions
            // and its notes when the handler returns, so none of them may serve, nor be told twice.
            self.turn_off();
        } else if table.leaving > 0 {
            table.keep_all_leaving();
        }
    }

    /// Whether this thread holds the lock.
    pub(crate) fn is_mine(&self) -> bool {
        self.lock.holder() == self.kernel.thread_id()
    }
}
