//! How much memory stays with the program that it asked to be given back, by blocks of 64 KB.
//!
//! Zeroing in place of MADV_DONTNEED leaves pages in memory. If the program uses them again they cost
//! nothing; if not, they do, and the budget is for those. The same holds where MADV_FREE is dropped; but there the old
//! content stays, so that nobody can tell whether the program has used it again, and such blocks are marked.

use crate::Range;
use crate::backoff::LookBackoff;

/// The size of a block in bytes.
pub(crate) const BLOCK_BYTES: usize = 64 * 1024;
pub(crate) const BLOCK_PLACES: usize = if cfg!(loom) { 64 } else { 8192 };
/// Blocks whose hashes are alike share so many places, a cache line. A block that finds them all taken is not counted.
const PLACES_PER_HASH: usize = 8;
/// The bit of a place that says [`Leftover::Freed`]. No address has it.
const FREED_BIT: usize = 1 << 63;

/// The content of a block that stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leftover {
    /// Zeros, until the program uses it again.
    Zeros,
    /// The program's own content, in a part of it at least: MADV_FREE was dropped.
    Freed,
}

pub(crate) struct RetainedBlocks {
    /// The number of the block whose place it is, plus one, and [`FREED_BIT`]; 0 is none.
    blocks: &'static mut [usize; BLOCK_PLACES],
    count: usize,
    /// The place that [`RetainedBlocks::next_counted`] has come to.
    hand: usize,
    /// Whether it pays to look at the counted blocks.
    pub(crate) rest: LookBackoff,
}

/// Blocks that have something of the range, by number.
fn blocks_of(range: Range) -> core::ops::RangeInclusive<usize> {
    range.start / BLOCK_BYTES..=(range.end - 1) / BLOCK_BYTES
}

/// Whether the range has all of a block that it has something of.
fn has_all(range: Range, block: usize) -> bool {
    let start = block * BLOCK_BYTES;
    range.start <= start && range.end - start >= BLOCK_BYTES
}

/// Where the places of a block are.
fn places_of(block: usize) -> core::ops::Range<usize> {
    let hash = (block as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54;
    let first = hash as usize % (BLOCK_PLACES / PLACES_PER_HASH) * PLACES_PER_HASH;
    first..first + PLACES_PER_HASH
}

impl RetainedBlocks {
    /// Begins in places that are all empty.
    pub(crate) fn new(blocks: &'static mut [usize; BLOCK_PLACES]) -> Self {
        RetainedBlocks {
            blocks,
            count: 0,
            hand: 0,
            rest: LookBackoff::NEW,
        }
    }

    /// Bytes kept.
    pub(crate) fn bytes(&self) -> usize {
        self.count * BLOCK_BYTES
    }

    fn find(&self, block: usize) -> Option<usize> {
        places_of(block).find(|at| self.blocks[*at] & !FREED_BIT == block + 1)
    }

    /// Counts the range, unless the sum would be above the budget. Where that is false, a part of it may be counted.
    pub(crate) fn count_range(&mut self, range: Range, left: Leftover, budget: usize) -> bool {
        let new = blocks_of(range).filter(|b| self.find(*b).is_none()).count();
        if new > 0 && (self.count + new) * BLOCK_BYTES > budget {
            return false;
        }
        blocks_of(range).all(|block| self.count_block(block, left, has_all(range, block)))
    }

    /// False where there is no place for it.
    fn count_block(&mut self, block: usize, left: Leftover, whole: bool) -> bool {
        let there = self.find(block);
        let Some(at) = there.or_else(|| places_of(block).find(|at| self.blocks[*at] == 0)) else {
            return false;
        };
        self.count += usize::from(there.is_none());
        // Content that was freed elsewhere in the block is there still.
        let was_freed = self.blocks[at] & FREED_BIT != 0 && !whole;
        let freed = left == Leftover::Freed || was_freed;
        self.blocks[at] = block + 1 + if freed { FREED_BIT } else { 0 };
        true
    }

    /// The range was given back: it is not kept. Of a block in which something was freed, that is so only where all of
    /// it was given back.
    pub(crate) fn uncount(&mut self, range: Range) {
        if self.count == 0 {
            return;
        }
        let all = blocks_of(range);
        if all.end() - all.start() < BLOCK_PLACES {
            for block in all {
                if let Some(at) = self.find(block) {
                    self.uncount_at(at, range);
                }
            }
            return;
        }
        for at in 0..BLOCK_PLACES {
            let block = self.blocks[at] & !FREED_BIT;
            if block > 0 && all.contains(&(block - 1)) {
                self.uncount_at(at, range);
            }
        }
    }

    /// The same for those blocks that are given back as a whole, of a range that is not large: the rest is found when
    /// it is counted anew. For calls that the library has nothing to do with.
    pub(crate) fn uncount_whole_blocks(&mut self, range: Range) {
        const MOST: usize = 64;
        if self.count == 0 || range.len() < BLOCK_BYTES || range.len() > MOST * BLOCK_BYTES {
            return;
        }
        for block in blocks_of(range).filter(|block| has_all(range, *block)) {
            if let Some(at) = self.find(block) {
                self.uncount_at(at, range);
            }
        }
    }

    fn uncount_at(&mut self, at: usize, range: Range) {
        let block = self.blocks[at] & !FREED_BIT;
        if self.blocks[at] & FREED_BIT == 0 || has_all(range, block - 1) {
            self.blocks[at] = 0;
            self.count -= 1;
        }
    }

    /// Takes a block off that was seen to be in use, or not in memory, unless it has become another since.
    pub(crate) fn uncount_block(&mut self, block: Range, left: Leftover) {
        let at = self.find(block.start / BLOCK_BYTES);
        if let Some(at) = at.filter(|at| self.left_at(*at) == left) {
            self.uncount_at(at, block);
        }
    }

    fn left_at(&self, at: usize) -> Leftover {
        if self.blocks[at] & FREED_BIT == 0 {
            Leftover::Zeros
        } else {
            Leftover::Freed
        }
    }

    /// The next block that is counted, going round, and its content.
    pub(crate) fn next_counted(&mut self) -> Option<(Range, Leftover)> {
        for _ in 0..BLOCK_PLACES {
            self.hand = (self.hand + 1) % BLOCK_PLACES;
            let block = self.blocks[self.hand] & !FREED_BIT;
            if block != 0 {
                let start = (block - 1) * BLOCK_BYTES;
                let end = start + BLOCK_BYTES;
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

    fn keep() -> RetainedBlocks {
        RetainedBlocks::new(Box::leak(Box::new([0; BLOCK_PLACES])))
    }

    /// So many blocks from the n-th on.
    fn range(n: usize, blocks: usize) -> Range {
        Range {
            start: n * BLOCK_BYTES,
            end: (n + blocks) * BLOCK_BYTES,
        }
    }

    /// Check that a range counts once, that the budget holds, and that what is given back is not kept.
    #[test]
    fn budget() {
        let mut keep = keep();
        assert!(keep.count_range(range(1, 2), Leftover::Zeros, 3 * BLOCK_BYTES));
        assert!(keep.count_range(range(1, 2), Leftover::Zeros, 3 * BLOCK_BYTES));
        assert_eq!(keep.bytes(), 2 * BLOCK_BYTES);
        assert!(!keep.count_range(range(5, 2), Leftover::Zeros, 3 * BLOCK_BYTES));
        assert_eq!(keep.next_counted().map(|(r, _)| r.len()), Some(BLOCK_BYTES));
        keep.uncount(range(0, 9));
        assert_eq!((keep.bytes(), keep.next_counted()), (0, None));
    }

    /// Check that a block is freed as long as anything in it may be: until all of it is zeroed or given back.
    #[test]
    fn freed() {
        let mut keep = keep();
        let page = Range {
            start: BLOCK_BYTES,
            end: BLOCK_BYTES + 4096,
        };
        let left = |keep: &mut RetainedBlocks| keep.next_counted().map(|(_, left)| left);
        assert!(keep.count_range(page, Leftover::Zeros, BLOCK_BYTES));
        assert_eq!(left(&mut keep), Some(Leftover::Zeros));
        assert!(keep.count_range(page, Leftover::Freed, BLOCK_BYTES));
        assert!(keep.count_range(page, Leftover::Zeros, BLOCK_BYTES));
        keep.uncount(page);
        assert_eq!(left(&mut keep), Some(Leftover::Freed));
        assert!(keep.count_range(range(1, 1), Leftover::Zeros, BLOCK_BYTES));
        assert_eq!(left(&mut keep), Some(Leftover::Zeros));
        assert!(keep.count_range(page, Leftover::Freed, BLOCK_BYTES));
        keep.uncount_block(range(1, 1), Leftover::Zeros);
        assert_eq!(left(&mut keep), Some(Leftover::Freed));
        keep.uncount_block(range(1, 1), Leftover::Freed);
        assert_eq!(keep.bytes(), 0);
    }

    /// Check that nothing freed is lost from the sum where there are more blocks than places, and that the places serve
    /// for half as many at least.
    #[test]
    fn nothing_is_lost() {
        let mut keep = keep();
        let admitted = |keep: &mut RetainedBlocks, from: usize| {
            let all = from..from + BLOCK_PLACES;
            all.filter(|n| keep.count_range(range(n * 3, 1), Leftover::Freed, usize::MAX))
                .count()
        };
        let first = admitted(&mut keep, 1000);
        assert!(first > BLOCK_PLACES / 2, "{first}");
        let second = admitted(&mut keep, 1_000_000);
        assert_eq!(keep.bytes(), (first + second) * BLOCK_BYTES);
        assert!(first + second <= BLOCK_PLACES);
    }

    proptest! {
        /// Check for any ranges that the sum is what the places hold and never above the budget, and that each block is
        /// there once.
        #[test]
        fn sums(steps in proptest::collection::vec((0..3, 0..100_000usize, 1..64usize), 0..60)) {
            let mut keep = keep();
            let budget = 100 * BLOCK_BYTES;
            for (what, at, blocks) in steps {
                let range = Range { start: at * 4096, end: at * 4096 + blocks * 4096 };
                match what {
                    0 => _ = keep.count_range(range, Leftover::Zeros, budget),
                    1 => _ = keep.count_range(range, Leftover::Freed, budget),
                    _ => keep.uncount(range),
                }
                let mut all: Vec<usize> = keep.blocks.iter().map(|b| b & !FREED_BIT).filter(|b| *b != 0).collect();
                prop_assert_eq!(keep.count, all.len());
                all.sort_unstable();
                all.dedup();
                prop_assert_eq!(keep.count, all.len());
                prop_assert!(keep.bytes() <= budget);
            }
        }
    }
}
