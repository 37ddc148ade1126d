//! Which CPU shot at which.

use crate::folding_map::{FoldKey, FoldingMap};

/// Rows and columns at most: the eye can't distinguish more.
const MAX_SIDE: u16 = 64;

/// Culprit's and victim's CPU, or groups of neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CpuPair {
    pub(crate) from: u16,
    pub(crate) at: u16,
}

impl FoldKey for CpuPair {
    // It need not be folded: there are no more pairs than MAX_SIDE squared.
    fn detail(self) -> u8 {
        0
    }

    fn coarser(self) -> Self {
        self
    }
}

/// Hits and stall by pair of CPUs.
#[derive(Default)]
pub(crate) struct CpuMatrix {
    pairs: FoldingMap<CpuPair, 2>,
    /// CPUs in a row or column, as a power of two.
    group: u32,
}

impl CpuMatrix {
    /// Adds a hit. Where a CPU lies beyond the last row or column, each two groups become one until it does not.
    #[inline]
    pub(crate) fn add(&mut self, from: u16, at: u16, step: u64, stall_ns: u64) {
        let highest = from.max(at);
        while highest >> self.group >= MAX_SIDE {
            self.group += 1;
            let fine = std::mem::take(&mut self.pairs);
            for entry in fine.live_entries() {
                let CpuPair { from, at } = entry.key;
                let key = CpuPair {
                    from: from >> 1,
                    at: at >> 1,
                };
                for (step, amount) in entry.series.cells() {
                    self.pairs.add(key, *step, amount);
                }
            }
        }
        let key = CpuPair {
            from: from >> self.group,
            at: at >> self.group,
        };
        self.pairs.add(key, step, &[1, stall_ns]);
    }

    pub(crate) fn double_steps(&mut self) {
        self.pairs.double_steps();
    }

    pub(crate) fn pairs(&self) -> &FoldingMap<CpuPair, 2> {
        &self.pairs
    }

    /// CPUs in each row and column.
    pub(crate) fn cpus_per_group(&self) -> u32 {
        1 << self.group
    }
}
