//! How much memory stays with the program that it asked to be given back, by blocks of 64 KB.
//!
//! Zeroing in place of MADV_DONTNEED leaves pages in memory. If the program uses them again they cost
//! nothing; if not, they do, and the budget is for those. The same holds where MADV_FREE is dropped; but there the old
//! content stays, so that nobody can tell whether the program has used it again, and such blocks are marked.

use crate::Range;
use crate::rest::Rest;

/// In bytes.
pub(crate) const BLOCK: usize = 64 * 1024;
pub(crate) const BLOCKS: usize = if cfg!(loom) { 64 } else { 8192 };
/// Blocks whose hashes are alike share so many places, a line of the cache. What finds them all taken is not kept.
const SHARED: usize = 8;
/// The bit of a place that says [`Left::Freed`]. No address has it.
const FREED: usize = 1 << 63;

/// What is left in a block that stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// Zeros, until the program uses it again.
    Zeros,
    /// What the program had there, in a part of it at least: MADV_FREE was dropped.
    Freed,
}

pub(crate) struct Keep {
    /// The number of the block whose place it is, plus one, and [`FREED`]; 0 is none.
    blocks: &'static mut [usize; BLOCKS],
    count: usize,
    hand: usize,
    /// Whether it pays to look at what is counted.
    pub(crate) rest: Rest,
}

/// Blocks that have something of the range, by number.
fn blocks(range: Range) -> core::ops::RangeInclusive<usize> {
    range.start / BLOCK..=(range.end - 1) / BLOCK
}

/// Whether the range has all of a block that it has something of.
fn has_all(range: Range, block: usize) -> bool {
    let start = block * BLOCK;
    range.start <= start && range.end - start >= BLOCK
}

/// Where the places of a block are.
fn places(block: usize) -> core::ops::Range<usize> {
    let hash = (block as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54;
    let first = hash as usize % (BLOCKS / SHARED) * SHARED;
    first..first + SHARED
}

impl Keep {
    /// In places that are all empty.
    pub(crate) fn new(blocks: &'static mut [usize; BLOCKS]) -> Self {
        Keep {
            blocks,
            count: 0,
            hand: 0,
            rest: Rest::NEW,
        }
    }

    /// Bytes kept.
    pub(crate) fn bytes(&self) -> usize {
        self.count * BLOCK
    }

    fn find(&self, block: usize) -> Option<usize> {
        places(block).find(|at| self.blocks[*at] & !FREED == block + 1)
    }

    /// Counts the range, unless the sum would be above the budget. Where that is false, a part of it may be counted.
    pub(crate) fn admit(&mut self, range: Range, left: Left, budget: usize) -> bool {
        let new = blocks(range).filter(|b| self.find(*b).is_none()).count();
        if new > 0 && (self.count + new) * BLOCK > budget {
            return false;
        }
        blocks(range).all(|block| self.admit_block(block, left, has_all(range, block)))
    }

    /// False where there is no place for it.
    fn admit_block(&mut self, block: usize, left: Left, whole: bool) -> bool {
        let there = self.find(block);
        let Some(at) = there.or_else(|| places(block).find(|at| self.blocks[*at] == 0)) else {
            return false;
        };
        self.count += usize::from(there.is_none());
        // What was freed elsewhere in the block is there still.
        let was_freed = self.blocks[at] & FREED != 0 && !whole;
        let freed = left == Left::Freed || was_freed;
        self.blocks[at] = block + 1 + if freed { FREED } else { 0 };
        true
    }

    /// The range was given back: it is not kept. Of a block in which something was freed, that is so only where all of
    /// it was given back.
    pub(crate) fn drop(&mut self, range: Range) {
        if self.count == 0 {
            return;
        }
        let all = blocks(range);
        if all.end() - all.start() < BLOCKS {
            for block in all {
                if let Some(at) = self.find(block) {
                    self.drop_at(at, range);
                }
            }
            return;
        }
        for at in 0..BLOCKS {
            let block = self.blocks[at] & !FREED;
            if block > 0 && all.contains(&(block - 1)) {
                self.drop_at(at, range);
            }
        }
    }

    /// The same for those blocks that are given back as a whole, of a range that is not large: what is left out is found when it is
    /// counted anew. For calls that the library has nothing to do with.
    pub(crate) fn drop_whole(&mut self, range: Range) {
        const MOST: usize = 64;
        if self.count == 0 || range.len() < BLOCK || range.len() > MOST * BLOCK {
            return;
        }
        for block in blocks(range).filter(|block| has_all(range, *block)) {
            if let Some(at) = self.find(block) {
                self.drop_at(at, range);
            }
        }
    }

    fn drop_at(&mut self, at: usize, range: Range) {
        let block = self.blocks[at] & !FREED;
        if self.blocks[at] & FREED == 0 || has_all(range, block - 1) {
            self.blocks[at] = 0;
            self.count -= 1;
        }
    }

    /// Takes a block off that was seen to be in use, or not in memory, unless it has become another since.
    pub(crate) fn take_off(&mut self, block: Range, left: Left) {
        let at = self.find(block.start / BLOCK);
        if let Some(at) = at.filter(|at| self.left_at(*at) == left) {
            self.drop_at(at, block);
        }
    }

    fn left_at(&self, at: usize) -> Left {
        if self.blocks[at] & FREED == 0 {
            Left::Zeros
        } else {
            Left::Freed
        }
    }

    /// The next block that is counted, going round, and what is left in it.
    pub(crate) fn next(&mut self) -> Option<(Range, Left)> {
        for _ in 0..BLOCKS {
            self.hand = (self.hand + 1) % BLOCKS;
            let block = self.blocks[self.hand] & !FREED;
            if block != 0 {
                let start = (block - 1) * BLOCK;
                let end = start + BLOCK;
                return Some((Range { start, end }, self.left_at(self.hand)));
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

    /// So many blocks from the n-th on.
    fn range(n: usize, blocks: usize) -> Range {
        Range {
            start: n * BLOCK,
            end: (n + blocks) * BLOCK,
        }
    }

    /// Check that a range counts once, that the budget holds, and that what is given back is not kept.
    #[test]
    fn budget() {
        let mut keep = keep();
        assert!(keep.admit(range(1, 2), Left::Zeros, 3 * BLOCK));
        assert!(keep.admit(range(1, 2), Left::Zeros, 3 * BLOCK));
        assert_eq!(keep.bytes(), 2 * BLOCK);
        assert!(!keep.admit(range(5, 2), Left::Zeros, 3 * BLOCK));
        assert_eq!(keep.next().map(|(r, _)| r.len()), Some(BLOCK));
        keep.drop(range(0, 9));
        assert_eq!((keep.bytes(), keep.next()), (0, None));
    }

    /// Check that a block is freed as long as anything in it may be: until all of it is zeroed or given back.
    #[test]
    fn freed() {
        let mut keep = keep();
        let page = Range {
            start: BLOCK,
            end: BLOCK + 4096,
        };
        let left = |keep: &mut Keep| keep.next().map(|(_, left)| left);
        assert!(keep.admit(page, Left::Zeros, BLOCK));
        assert_eq!(left(&mut keep), Some(Left::Zeros));
        assert!(keep.admit(page, Left::Freed, BLOCK));
        assert!(keep.admit(page, Left::Zeros, BLOCK));
        keep.drop(page);
        assert_eq!(left(&mut keep), Some(Left::Freed));
        assert!(keep.admit(range(1, 1), Left::Zeros, BLOCK));
        assert_eq!(left(&mut keep), Some(Left::Zeros));
        assert!(keep.admit(page, Left::Freed, BLOCK));
        keep.take_off(range(1, 1), Left::Zeros);
        assert_eq!(left(&mut keep), Some(Left::Freed));
        keep.take_off(range(1, 1), Left::Freed);
        assert_eq!(keep.bytes(), 0);
    }

    /// Check that nothing freed is lost from the sum where there are more blocks than places, and that the places serve
    /// for half as many at least.
    #[test]
    fn nothing_is_lost() {
        let mut keep = keep();
        let admitted = |keep: &mut Keep, from: usize| {
            let all = from..from + BLOCKS;
            all.filter(|n| keep.admit(range(n * 3, 1), Left::Freed, usize::MAX))
                .count()
        };
        let first = admitted(&mut keep, 1000);
        assert!(first > BLOCKS / 2, "{first}");
        let second = admitted(&mut keep, 1_000_000);
        assert_eq!(keep.bytes(), (first + second) * BLOCK);
        assert!(first + second <= BLOCKS);
    }

    proptest! {
        /// Check for any ranges that the sum is what the places hold and never above the budget, and that each block is
        /// there once.
        #[test]
        fn sums(steps in proptest::collection::vec((0..3, 0..100_000usize, 1..64usize), 0..60)) {
            let mut keep = keep();
            let budget = 100 * BLOCK;
            for (what, at, blocks) in steps {
                let range = Range { start: at * 4096, end: at * 4096 + blocks * 4096 };
                match what {
                    0 => _ = keep.admit(range, Left::Zeros, budget),
                    1 => _ = keep.admit(range, Left::Freed, budget),
                    _ => keep.drop(range),
                }
                let mut all: Vec<usize> = keep.blocks.iter().map(|b| b & !FREED).filter(|b| *b != 0).collect();
                prop_assert_eq!(keep.count, all.len());
                all.sort_unstable();
                all.dedup();
                prop_assert_eq!(keep.count, all.len());
                prop_assert!(keep.bytes() <= budget);
            }
        }
    }
}
