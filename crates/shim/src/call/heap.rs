//! malloc_trim(3), where the program calls it itself.

use crate::kernel::Kernel;
use crate::shim::Shim;
use crate::sync::Ordering;

impl<K: Kernel> Shim<K> {
    /// Whether a malloc_trim(3) of the program's is answered with 0: nothing was given back, as the C library says
    /// where its heaps have nothing to give. Only where that was asked for, and while memory is not known to be short:
    /// kept memory has no price until then. And not above the bound of resident memory, if there is one.
    pub fn drops_heap_trim(&self) -> bool {
        self.counters.heap_trims.count_one();
        let may = self.settings().drop_heap_trim && !self.is_off() && !self.is_retired();
        if !may || self.lock.is_forking() {
            return false;
        }
        // At most once in 100 ms that asks; a trim takes much longer than a look at the clock.
        self.look_unless_recent();
        let known = self.free_memory.load(Ordering::Relaxed) > 0 && !self.kernel.is_filtered();
        let drops = known && !self.is_short() && self.is_within_bound();
        if drops {
            self.counters.heap_trims_dropped.count_one();
        }
        drops
    }

    fn is_within_bound(&self) -> bool {
        let bound = self.settings().resident;
        bound == 0
            || self
                .kernel
                .resident_bytes()
                .is_some_and(|there| there <= bound)
    }
}
