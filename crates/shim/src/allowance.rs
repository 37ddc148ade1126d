//! How much may be kept, and how much is given back where that is exceeded.

use crate::PAGE;

/// Memory that is too much is brought down to this part, so that the next trim is some way off.
const TRIM_DIVISOR: usize = 2;
/// One shootdown gives back so many bytes: the kernel flushes when it has gathered about so many pages
/// (MAX_GATHER_BATCH_COUNT batches of 510, include/asm-generic/tlb.h, Linux 6.18: 9,690).
const ONE_FLUSH_BYTES: usize = 9216 * PAGE;
/// This part of the bound may always be kept. Otherwise each call would cause a shootdown where the program by itself
/// needs more than the bound.
const ALWAYS_KEPT_PART: usize = 16;

/// How the process stands to the bound of its resident memory.
pub(crate) enum ResidentRoom {
    Enough,
    /// It is below, but so much more would be a large part of the room left.
    Little,
    /// The process is above it, by so many bytes.
    Over(usize),
}

/// Sizes in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Allowance {
    /// So many bytes may be kept, the memory that is about to be kept included.
    pub(crate) most: usize,
    /// Kept memory is brought down to this first, where more would be too much; MAX means that nothing is done.
    pub(crate) trim_to: usize,
    /// So many bytes may be kept, the memory that is about to be kept included, while another thread is giving back or
    /// offering.
    pub(crate) meanwhile: usize,
}

impl Allowance {
    /// Nothing is kept.
    pub(crate) const KEEP_NOTHING: Allowance = Allowance {
        most: 0,
        trim_to: 0,
        meanwhile: 0,
    };

    /// Where nothing but a budget limits it. Memory that does not fit is unmapped, at a shootdown: to make room for it
    /// takes one too, and leaves holes in the address space, so that large mappings find no room in kept memory.
    pub(crate) fn of_budget(budget: usize) -> Allowance {
        Allowance {
            most: budget,
            trim_to: usize::MAX,
            meanwhile: budget,
        }
    }

    /// Where little may be kept: it is brought down to a part of that, so that the next trim is some way off.
    fn of_small_budget(budget: usize, more: usize) -> Allowance {
        Allowance {
            most: budget,
            trim_to: (budget / TRIM_DIVISOR).saturating_sub(more),
            meanwhile: budget,
        }
    }

    /// Where `more` are to be kept and the process has too much in memory: the excess is given back from the kept
    /// memory, and as much besides as goes with the same shootdown, but no more than three quarters of what is kept for that.
    /// To give back more than that means to fault it in anew, and takes it from other mappings that it would serve: by half, and
    /// by three quarters, there were twice as many shootdowns where blocks are large.
    pub(crate) fn when_over(over: usize, kept: usize, more: usize, bound: usize) -> Allowance {
        let always = bound / ALWAYS_KEPT_PART;
        let give = over.max(ONE_FLUSH_BYTES.min(kept / 4 * 3));
        if give > kept {
            // All of it would not do. The next trim is some way off here, too.
            return Allowance::of_small_budget(always, more);
        }
        let trim_to = (kept - give).max((always / TRIM_DIVISOR).saturating_sub(more));
        let most = trim_to.saturating_add(more).max(always);
        Allowance {
            most,
            trim_to,
            meanwhile: most,
        }
    }

    /// Limits it to this budget.
    pub(crate) fn limited_to(self, budget: usize, more: usize) -> Allowance {
        Allowance {
            most: self.most.min(budget),
            trim_to: self.trim_to.min(budget.saturating_sub(more)),
            meanwhile: self.meanwhile.min(budget),
        }
    }

    /// While another thread is giving back, unmapped memory is kept without a wait: it is in memory already, so the
    /// process has no more by that, and to unmap it would be a shootdown each. The next call after gives back the
    /// excess. Whoever gives back may be stopped for long, so there is a limit here too: a quarter above the budget, as
    /// leaving memory is in it until it has left.
    pub(crate) fn with_meanwhile(self, budget: usize) -> Allowance {
        Allowance {
            meanwhile: self.most.max(budget.saturating_add(budget / 4)),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MB: usize = 1 << 20;

    /// Check what is given back above the bound: as much as one shootdown takes, more only if there is more too
    /// much, and of little no more than three quarters.
    #[test]
    fn one_flush() {
        let given =
            |over, kept| kept - Allowance::when_over(over, kept, 10 * MB, 1000 * MB).trim_to;
        assert_eq!(given(0, 400 * MB), 36 * MB);
        assert_eq!(given(30 * MB, 400 * MB), 36 * MB);
        assert_eq!(given(90 * MB, 400 * MB), 90 * MB);
        assert_eq!(
            Allowance::when_over(0, 40 * MB, 0, 100 * MB).trim_to,
            10 * MB
        );
    }

    /// Check that a little budget is trimmed to half of it, with room for what comes, and that one without a bound is not.
    #[test]
    fn half() {
        let may = Allowance::of_small_budget(64 * MB, 10 * MB);
        assert_eq!((may.most, may.trim_to), (64 * MB, 22 * MB));
        assert_eq!(Allowance::of_small_budget(0, MB).trim_to, 0);
        assert_eq!(Allowance::of_budget(64 * MB).trim_to, usize::MAX);
    }

    /// Check that a program which needs more than the bound by itself does not trim at each call: 4,000 blocks of
    /// 256 KB, of which 62.5 MB may be kept.
    #[test]
    fn above_for_good() {
        let (mut kept, mut trims, more) = (0, 0, 256 << 10);
        for _ in 0..4000 {
            let may = Allowance::when_over(500 * MB, kept, more, 1000 * MB);
            if kept + more > may.most {
                (kept, trims) = (may.trim_to, trims + 1);
            }
            kept += more;
        }
        assert!((30..35).contains(&trims), "{trims}");
    }

    proptest! {
        /// Check for any sizes that after a trim what is to be kept has room, if it is not larger than all that
        /// may be kept; that no more is kept than before, or than the little that always may; and that what is
        /// too much is given back, or all but that little.
        #[test]
        fn trims(
            over in 0..2000 * MB,
            kept in 0..2000 * MB,
            more in 1..200 * MB,
            bound in 1..2000 * MB,
            budget in 1..2000 * MB,
        ) {
            let always = bound / ALWAYS_KEPT_PART;
            let may = Allowance::when_over(over, kept, more, bound);
            prop_assert!(may.most <= kept.saturating_add(more).max(always));
            prop_assert!(may.trim_to <= kept.saturating_sub(over).max(always));
            for may in [may, may.limited_to(budget, more), Allowance::of_small_budget(budget, more)] {
                prop_assert!(may.trim_to.saturating_add(more) <= may.most || more > may.most);
            }
            prop_assert!(may.limited_to(budget, more).most <= budget);
        }
    }
}
