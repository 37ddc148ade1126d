//! Lines of memory that are visited one after the other, each naming the next, in an order that chance decides.

use quell_stats::Rng;

use crate::memory::{LabMapping, PAGE_BYTES};

/// The size of a cache line.
pub(super) const CACHE_LINE_BYTES: usize = 64;

/// Cache lines in a page.
const LINES_PER_PAGE: u64 = (PAGE_BYTES / CACHE_LINE_BYTES) as u64;

/// How lines lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineLayout {
    /// One line after the other: as few pages as there can be.
    Packed,
    /// One line in each page.
    OneAPage,
}

impl LineLayout {
    /// Where a line lies.
    ///
    /// With one in each page at the same place, all lines would share the same few sets of a cache, which take part of the
    /// address below the page (64 sets of 64 bytes are one page). So the place within the page is spread by the golden
    /// ratio (Knuth, The Art of Computer Programming, volume 3, 6.4), which is also not in step with the page's number,
    /// that chooses among the sets of a larger cache.
    pub(super) fn line_offset(self, line: usize) -> usize {
        match self {
            Self::Packed => line * CACHE_LINE_BYTES,
            Self::OneAPage => {
                let spread = (line as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
                line * PAGE_BYTES + (spread % LINES_PER_PAGE) as usize * CACHE_LINE_BYTES
            }
        }
    }

    /// The bytes that so many lines take.
    pub(super) fn bytes_of_lines(self, lines: usize) -> usize {
        match self {
            Self::Packed => lines * CACHE_LINE_BYTES,
            Self::OneAPage => lines * PAGE_BYTES,
        }
    }
}

/// The successor of each line: one cycle through all of them (Sattolo, "An algorithm to generate a random cyclic permutation",
/// 1986).
fn random_cycle(lines: usize, rng: &mut Rng) -> Vec<usize> {
    let mut next: Vec<usize> = (0..lines).collect();
    for last in (1..lines).rev() {
        next.swap(last, rng.below(last));
    }
    next
}

/// Writes a cycle through the first so many lines of an area, and returns the first of them.
pub(super) fn write_chain(
    area: &LabMapping,
    lay: LineLayout,
    lines: usize,
    rng: &mut Rng,
) -> *mut u8 {
    let lines = lines.max(1);
    assert!(
        lay.bytes_of_lines(lines) <= area.bytes(),
        "{lines} lines have no room"
    );
    let at = |line: usize| area.start().wrapping_add(lay.line_offset(line));
    for (line, next) in random_cycle(lines, rng).into_iter().enumerate() {
        // SAFETY: a line within the area, by the assertion above, and aligned to its size.
        unsafe { at(line).cast::<*mut u8>().write_volatile(at(next)) };
    }
    at(0)
}

/// Loads that one turn of [`follow_chain`] is made of.
pub(super) const LOADS_PER_TURN: u64 = 16;

/// Follows a chain for so many turns of 16 loads, each of which needs the one before. In assembly, so that a load is
/// one instruction however this crate was compiled.
///
/// # Safety
///
/// `from` must be a line of a chain whose area is still mapped.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) unsafe fn follow_chain(from: *mut u8, turns: u64) -> *mut u8 {
    let mut at = from;
    // SAFETY: every load reads a line of the chain, which holds the address of another; nothing is written.
    unsafe {
        core::arch::asm!(
            "2:",
            "mov {at}, [{at}]", "mov {at}, [{at}]", "mov {at}, [{at}]", "mov {at}, [{at}]",
            "mov {at}, [{at}]", "mov {at}, [{at}]", "mov {at}, [{at}]", "mov {at}, [{at}]",
            "mov {at}, [{at}]", "mov {at}, [{at}]", "mov {at}, [{at}]", "mov {at}, [{at}]",
            "mov {at}, [{at}]", "mov {at}, [{at}]", "mov {at}, [{at}]", "mov {at}, [{at}]",
            "dec {turns}",
            "jnz 2b",
            at = inout(reg) at,
            turns = inout(reg) turns.max(1) => _,
            options(nostack, readonly),
        );
    }
    at
}

/// The same, elsewhere.
///
/// # Safety
///
/// `from` must be a line of a chain whose area is still mapped.
#[cfg(not(target_arch = "x86_64"))]
pub(super) unsafe fn follow_chain(from: *mut u8, turns: u64) -> *mut u8 {
    let mut at = from;
    for _ in 0..turns.max(1) * LOADS_PER_TURN {
        // SAFETY: a line of the chain, which holds the address of another.
        at = unsafe { at.cast::<*mut u8>().read_volatile() };
    }
    at
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use quell_stats::Rng;

    use super::*;

    proptest! {
        /// Check that the order is one circle through all lines, whatever their number and the seed.
        #[test]
        fn one_circle(lines in 1_usize..3000, seed in any::<u64>()) {
            let next = random_cycle(lines, &mut Rng::new(seed));
            let mut seen = BTreeSet::new();
            let mut at = 0;
            for _ in 0..lines {
                prop_assert!(seen.insert(at));
                at = next[at];
            }
            prop_assert_eq!(at, 0);
            prop_assert_eq!(seen.len(), lines);
        }

        /// Check that following a chain visits lines of the area only, and is back where it began after a whole number of
        /// circles.
        #[test]
        fn chains_end_where_they_begin(pages in 1_usize..64, seed in any::<u64>()) {
            let area = LabMapping::with_huge_pages(64 * PAGE_BYTES, false).unwrap();
            for lay in [LineLayout::Packed, LineLayout::OneAPage] {
                let first = write_chain(&area, lay, pages, &mut Rng::new(seed));
                // SAFETY: the area is mapped until the end of this test.
                let at = unsafe { follow_chain(first, pages as u64) };
                prop_assert_eq!(at, first);
            }
        }

        /// Check that every line lies within its page, lines do not overlap, and the sets of a cache are used alike: of the
        /// 64 sets of a small one and of the 2,048 of a large one none gets more than a few times its share.
        #[test]
        fn sets_are_used_alike(from in 0_usize..1 << 20, log in 6_u32..15) {
            let lines = 1_usize << log;
            for (sets, most) in [(64, 3), (2048, 4)] {
                let mut used = vec![0_usize; sets];
                for line in from..from + lines {
                    let offset = LineLayout::OneAPage.line_offset(line);
                    prop_assert_eq!(offset / PAGE_BYTES, line);
                    prop_assert_eq!(offset % CACHE_LINE_BYTES, 0);
                    used[offset / CACHE_LINE_BYTES % sets] += 1;
                }
                let share = lines.div_ceil(sets);
                prop_assert!(used.iter().all(|n| *n <= most * share), "{sets} sets, {lines} lines: {:?}", used.iter().max());
            }
        }
    }

    /// Check that packed lines touch each other.
    #[test]
    fn packed_is_packed() {
        assert_eq!(
            [0, 1, 64].map(|n| LineLayout::Packed.line_offset(n)),
            [0, 64, 4096]
        );
        assert_eq!(LineLayout::Packed.bytes_of_lines(64), PAGE_BYTES);
        assert_eq!(LineLayout::OneAPage.bytes_of_lines(64), 64 * PAGE_BYTES);
    }
}
