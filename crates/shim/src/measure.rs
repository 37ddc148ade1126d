//! From which size on giving memory back costs less than zeroing it, on this machine.

use crate::kernel::{Kernel, Map};
use crate::linux::{MADV_DONTNEED, MAP_ANONYMOUS, MAP_PRIVATE, PROT_READ, PROT_WRITE};
use crate::{PAGE, Range};

/// Never less and never more, whatever is measured: below, zeroing has always been cheaper by far, and
/// above, it pushes everything else out of the caches.
pub(crate) const LEAST: usize = 64 * 1024;
const MOST: usize = 16 * 1024 * 1024;
/// The two sizes that a line is drawn through.
const SMALL: usize = 16 * PAGE;
const LARGE: usize = 128 * PAGE;
const ROUNDS: usize = 3;
/// What is not seen here, as nothing else runs in the address space: the interrupt of another CPU and
/// the wait for it. At least so long, ns (docs/remedies.md: 3 us for the smallest call with a peer).
const SHOOTDOWN_NS: u64 = 2_000;

/// The size up to which zeroing is as cheap, in bytes. Takes some hundred microseconds, once.
pub(crate) fn zero_up_to(kernel: &impl Kernel) -> usize {
    let map = Map {
        addr: 0,
        len: LARGE,
        prot: PROT_READ | PROT_WRITE,
        flags: MAP_PRIVATE | MAP_ANONYMOUS,
        fd: -1,
        offset: 0,
    };
    // SAFETY: a mapping of our own, which is unmapped again.
    unsafe {
        let Ok(at) = kernel.mmap(&map) else {
            return LEAST;
        };
        let small = cost(kernel, at, SMALL);
        let large = cost(kernel, at, LARGE);
        let _ = kernel.munmap(at, LARGE);
        crossing(small, large)
    }
}

/// The least time to zero and to give back so many bytes that are in memory, ns.
unsafe fn cost(kernel: &impl Kernel, at: usize, len: usize) -> (u64, u64) {
    let range = Range {
        start: at,
        end: at + len,
    };
    let mut least = (u64::MAX, u64::MAX);
    for _ in 0..ROUNDS {
        // SAFETY: the caller's mapping.
        unsafe {
            kernel.zero(range);
            let start = kernel.now();
            kernel.zero(range);
            let zeroed = kernel.now();
            let _ = kernel.madvise(at, len, MADV_DONTNEED);
            let given = kernel.now();
            least.0 = least.0.min(zeroed.saturating_sub(start));
            least.1 = least.1.min(given.saturating_sub(zeroed));
        }
    }
    least
}

/// Where the line of zeroing crosses that of giving back.
fn crossing(small: (u64, u64), large: (u64, u64)) -> usize {
    // In thousandths of a nanosecond a byte.
    let slope = |a: u64, b: u64| b.saturating_sub(a) * 1000 / (LARGE - SMALL) as u64;
    let (zero, give) = (slope(small.0, large.0), slope(small.1, large.1));
    let ahead = (small.1 + SHOOTDOWN_NS).saturating_sub(small.0);
    match zero.checked_sub(give) {
        Some(slower) if slower > 0 => {
            let more = usize::try_from(ahead * 1000 / slower).unwrap_or(MOST);
            SMALL.saturating_add(more).clamp(LEAST, MOST)
        }
        _ => MOST,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check the crossing of two lines, and its bounds.
    #[test]
    fn crosses() {
        // Zeroing 100 ns for the first and 0.1 ns a byte more; giving back 3,000 ns whatever the size.
        let more = (LARGE - SMALL) as u64;
        let found = crossing((100, 3000), (100 + more / 10, 3000));
        assert!(
            (found as i64 - (SMALL as i64 + 49_000)).abs() < 2_000,
            "{found}"
        );
        assert_eq!(crossing((100, 3000), (100, 9000)), MOST);
        assert_eq!(crossing((9000, 1), (90_000, 1)), LEAST);
    }
}
