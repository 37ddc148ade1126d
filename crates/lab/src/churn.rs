//! Uses an allocator as a service does: two threads allocate blocks of 64 KB to 4 MB, write them, and free them, bursts of them
//! at once. They use the process's own malloc, so that a preloaded allocator is the one that is measured.

use std::thread;

use quell_stats::Rng;

use crate::malloc_block::MallocBlock;

/// Blocks that a thread holds at once.
const MAX_HELD_BLOCKS: usize = 24;

/// Each of two threads does so many operations: an allocation or a free.
pub fn run_churn(operations: u64, seed: u64) {
    thread::scope(|scope| {
        for thread in 0..2 {
            scope.spawn(move || churn_blocks(operations, seed + thread));
        }
    });
}

fn churn_blocks(operations: u64, seed: u64) {
    let mut rng = Rng::new(seed);
    let mut held: Vec<MallocBlock> = Vec::with_capacity(MAX_HELD_BLOCKS);
    for _ in 0..operations {
        if held.len() == MAX_HELD_BLOCKS || (!held.is_empty() && rng.next_unit() < 0.5) {
            let which = rng.below(held.len());
            held.swap_remove(which);
        } else {
            // Every octave of sizes from 64 KB to 4 MB has the same share.
            let size = (64 << 10) << rng.below(7);
            held.extend(MallocBlock::new(size));
        }
    }
}

#[cfg(test)]
mod tests {
    /// Check that the operations end, whatever the seed, with every block given back.
    #[test]
    fn ends() {
        (0..4).for_each(|seed| super::run_churn(200, seed));
    }
}
