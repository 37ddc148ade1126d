//! How much memory stays with the program that it asked to be given back, by blocks of 64 KB.
//!
//! Zeroing in place of MADV_DONTNEED leaves pages in memory. If the program uses them again they cost
//! nothing; if not, they do, and the budget is for those. Blocks are looked up by a hash without
//! chains: two that fall together count as one, so the sum may be too low by some.

use crate::Range;

/// In bytes.
pub(crate) const BLOCK: usize = 64 * 1024;
pub(crate) const BLOCKS: usize = if cfg!(loom) { 64 } else { 8192 };

pub(crate) struct Keep {
    /// The number of the block whose place it is, plus one; 0 is none.
    blocks: &'static mut [usize; BLOCKS],
    count: usize,
    hand: usize,
}

/// Blocks that have something of the range, by number.
fn blocks(range: Range) -> core::ops::RangeInclusive<usize> {
    range.start / BLOCK..=(range.end - 1) / BLOCK
}

fn place(block: usize) -> usize {
    ((block as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 51) as usize % BLOCKS
}

impl Keep {
    /// In places that are all empty.
    pub(crate) fn new(blocks: &'static mut [usize; BLOCKS]) -> Self {
        Keep {
            blocks,
            count: 0,
            hand: 0,
        }
    }

    /// Bytes kept.
    pub(crate) fn bytes(&self) -> usize {
        self.count * BLOCK
    }

    /// Counts the range, unless the sum would be above the budget.
    pub(crate) fn admit(&mut self, range: Range, budget: usize) -> bool {
        let new = blocks(range)
            .filter(|b| self.blocks[place(*b)] != b + 1)
            .count();
        if new > 0 && (self.count + new) * BLOCK > budget {
            return false;
        }
        for block in blocks(range) {
            let there = &mut self.blocks[place(block)];
            self.count += usize::from(*there == 0);
            *there = block + 1;
        }
        true
    }

    /// The range was given back: it is not kept.
    pub(crate) fn drop(&mut self, range: Range) {
        let all = blocks(range);
        if all.end() - all.start() < BLOCKS {
            for block in all {
                self.drop_block(block);
            }
            return;
        }
        for there in self.blocks.iter_mut() {
            if *there > 0 && all.contains(&(*there - 1)) {
                *there = 0;
                self.count -= 1;
            }
        }
    }

    fn drop_block(&mut self, block: usize) {
        let there = &mut self.blocks[place(block)];
        if *there == block + 1 {
            *there = 0;
            self.count -= 1;
        }
    }

    /// The next block that is counted, by its first address, going round.
    pub(crate) fn next(&mut self) -> Option<Range> {
        for _ in 0..BLOCKS {
            self.hand = (self.hand + 1) % BLOCKS;
            let there = self.blocks[self.hand];
            if there != 0 {
                let start = (there - 1) * BLOCK;
                return Some(Range {
                    start,
                    end: start + BLOCK,
                });
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn keep() -> Keep {
        Keep::new(Box::leak(Box::new([0; BLOCKS])))
    }

    /// Check that a range counts once, that the budget holds, and that what is given back is not kept.
    #[test]
    fn budget() {
        let mut keep = keep();
        let range = |n: usize, blocks: usize| Range {
            start: n * BLOCK,
            end: (n + blocks) * BLOCK,
        };
        assert!(keep.admit(range(1, 2), 3 * BLOCK));
        assert!(keep.admit(range(1, 2), 3 * BLOCK));
        assert_eq!(keep.bytes(), 2 * BLOCK);
        assert!(!keep.admit(range(5, 2), 3 * BLOCK));
        assert_eq!(keep.next().map(|r| r.len()), Some(BLOCK));
        keep.drop(range(0, 9));
        assert_eq!((keep.bytes(), keep.next()), (0, None));
    }

    proptest! {
        /// Check for any ranges that the sum is what the places hold and never above the budget.
        #[test]
        fn sums(steps in proptest::collection::vec((any::<bool>(), 0..100_000usize, 1..64usize), 0..60)) {
            let mut keep = keep();
            let budget = 100 * BLOCK;
            for (add, at, blocks) in steps {
                let range = Range { start: at * 4096, end: at * 4096 + blocks * 4096 };
                if add {
                    keep.admit(range, budget);
                } else {
                    keep.drop(range);
                }
                prop_assert_eq!(keep.count, keep.blocks.iter().filter(|b| **b != 0).count());
                prop_assert!(keep.bytes() <= budget);
            }
        }
    }
}
