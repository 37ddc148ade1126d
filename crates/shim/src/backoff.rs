//! When to look again at memory that is counted as unused, after looks that were in vain.
//!
//! A look takes some microseconds, so looks in vain at each call would cost many times as much as the call saves. A
//! program whose looks pay is looked at whenever the budget is full, and one that gives much back for good hardly ever.

/// After looks in vain none follow for 2^10 calls at most.
const MAX_BACKOFF_LOG2: u8 = 10;
/// So many times in a row that paid take one doubt away. They have found as much by then as looks in vain cost.
const PAID_LOOKS_PER_DOUBT: u8 = 32;
/// More looks than this for each block that is found cost more than that saves.
const MAX_LOOKS_PER_BLOCK: usize = 2;
/// Fewer blocks are no room for any range.
const MIN_BLOCKS_FOUND: usize = 2;

/// All zeros at first.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LookBackoff {
    /// Grows each time that the looks did not pay.
    doubt: u8,
    /// Times in a row that they did.
    good: u8,
    /// Calls that pass before the next looks.
    skip: u16,
}

impl LookBackoff {
    pub(crate) const NEW: LookBackoff = LookBackoff {
        doubt: 0,
        good: 0,
        skip: 0,
    };

    /// Whether to look now; asked by each call that would.
    pub(crate) fn may_look_now(&mut self) -> bool {
        let looks = self.skip == 0;
        self.skip = self.skip.saturating_sub(1);
        looks
    }

    /// So many looks found so many blocks. Where that is less than the call needs, but much, the next call has it.
    pub(crate) fn note_result(&mut self, looks: usize, blocks: usize) {
        if blocks < MIN_BLOCKS_FOUND || looks > blocks * MAX_LOOKS_PER_BLOCK {
            self.good = 0;
            self.doubt = (self.doubt + 1).min(MAX_BACKOFF_LOG2);
            self.skip = 1 << self.doubt;
            return;
        }
        self.good += 1;
        if self.good == PAID_LOOKS_PER_DOUBT {
            self.good = 0;
            self.doubt = self.doubt.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Calls that all need room: how many looked, of so many, where so many looks always find so many blocks.
    fn looked(rest: &mut LookBackoff, calls: usize, looks: usize, blocks: usize) -> usize {
        let mut count = 0;
        for _ in 0..calls {
            if rest.may_look_now() {
                count += 1;
                rest.note_result(looks, blocks);
            }
        }
        count
    }

    /// Check that looks in vain get rare, and as rare where they find something but too much is looked at for it; that the
    /// first one that pays brings them back at once; and that where they always pay every call looks.
    #[test]
    fn rare_in_vain() {
        for blocks in [0, 1, 10] {
            let mut rest = LookBackoff::NEW;
            let count = looked(&mut rest, 2046 + 10, 32, blocks);
            assert_eq!(count, 10, "each waits twice as long as the one before");
            assert_eq!(looked(&mut rest, 10_250, 32, blocks), 10);
        }
        let mut rest = LookBackoff::NEW;
        assert_eq!(looked(&mut rest, 1000, 3, 2), 1000);
        looked(&mut rest, 10_000, 32, 0);
        let count = looked(&mut rest, 2000, 3, 2);
        assert!(count > 2000 - 1025, "{count}");
    }

    /// Check that doubt falls where looks pay, so that one more in vain is soon forgotten.
    #[test]
    fn doubt_falls() {
        let mut rest = LookBackoff::NEW;
        looked(&mut rest, 10_000, 32, 0);
        looked(&mut rest, 2000, 3, 2);
        rest.note_result(32, 0);
        assert_eq!(rest.skip, 2);
    }

    proptest! {
        /// Check for whatever looks find that all of them together are no more than three for each block that is found, and
        /// those of one time in vain for each 1,024 calls, and of some at first.
        #[test]
        fn what_it_costs(phases in proptest::collection::vec((0..3000usize, 0..=64usize, 0..=64usize), 0..40)) {
            let mut rest = LookBackoff::NEW;
            let (mut all, mut found, mut calls) = (0, 0, 0);
            for (count, looks, blocks) in phases {
                let blocks = blocks.min(looks);
                let times = looked(&mut rest, count, looks, blocks);
                all += times * looks;
                found += times * blocks;
                calls += count;
            }
            let in_vain = usize::from(MAX_BACKOFF_LOG2) + 1 + calls / 1024;
            prop_assert!(all <= 3 * found + 64 * in_vain, "{all} looks, {found} found in {calls} calls");
        }
    }
}
