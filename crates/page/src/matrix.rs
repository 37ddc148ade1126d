//! Which CPU shot at which.

use crate::told::{Key, Told};

/// Rows and columns at most: more can't be told apart by eye.
const SIDE: u16 = 64;

/// Culprit's and victim's CPU, or groups of neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CpuPair {
    pub(crate) from: u16,
    pub(crate) at: u16,
}

impl Key for CpuPair {
    fn detail(self) -> u8 {
        0
    }

    fn coarser(self) -> Self {
        self
    }
}

/// Hits and stall by pair of CPUs.
#[derive(Default)]
pub(crate) struct Matrix {
    told: Told<CpuPair, 2>,
    /// CPUs in a row or column, as a power of two.
    group: u32,
}

impl Matrix {
    #[inline]
    pub(crate) fn add(&mut self, from: u16, at: u16, step: u64, stall_ns: u64) {
        let highest = from.max(at);
        while highest >> self.group >= SIDE {
            self.group += 1;
            let fine = std::mem::take(&mut self.told);
            for entry in fine.live() {
                let CpuPair { from, at } = entry.key;
                let key = CpuPair {
                    from: from >> 1,
                    at: at >> 1,
                };
                for (step, amount) in entry.series.cells() {
                    self.told.add(key, *step, amount);
                }
            }
        }
        let key = CpuPair {
            from: from >> self.group,
            at: at >> self.group,
        };
        self.told.add(key, step, &[1, stall_ns]);
    }

    pub(crate) fn coarsen(&mut self) {
        self.told.coarsen();
    }

    pub(crate) fn told(&self) -> &Told<CpuPair, 2> {
        &self.told
    }

    /// CPUs in each row and column.
    pub(crate) fn group(&self) -> u32 {
        1 << self.group
    }
}
