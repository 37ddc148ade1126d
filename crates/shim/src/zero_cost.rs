//! From which size on giving memory back costs less than zeroing it, on this machine.

use crate::kernel::{Kernel, Map};
use crate::linux::{MADV_DONTNEED, MAP_ANONYMOUS, MAP_PRIVATE, PROT_READ, PROT_WRITE};
use crate::{PAGE, Range};

/// Never less and never more, whatever is measured: below, zeroing has always been cheaper by far, and
/// above, it pushes everything else out of the caches.
pub(crate) const MIN_ZEROED_BYTES: usize = 64 * 1024;
const MAX_ZEROED_BYTES: usize = 16 * 1024 * 1024;
/// The two sizes that a line is drawn through.
const SMALL_SAMPLE_BYTES: usize = 16 * PAGE;
const LARGE_SAMPLE_BYTES: usize = 128 * PAGE;
const MEASURED_ROUNDS: usize = 3;
/// The interrupt of another CPU and the wait for it are not seen here, as nothing else runs in the address space. They
/// take at least so long, ns (docs/remedies.md: 3 us for the smallest call with a peer).
const SHOOTDOWN_NS: u64 = 2_000;

/// The size up to which zeroing is as cheap, in bytes. Takes some hundred microseconds, once.
pub(crate) fn zero_up_to(kernel: &impl Kernel) -> usize {
    let map = Map {
        addr: 0,
        len: LARGE_SAMPLE_BYTES,
        prot: PROT_READ | PROT_WRITE,
        flags: MAP_PRIVATE | MAP_ANONYMOUS,
        fd: -1,
        offset: 0,
    };
    // SAFETY: a mapping of our own, which is unmapped again.
    unsafe {
        let Ok(at) = kernel.mmap(&map) else {
            return MIN_ZEROED_BYTES;
        };
        let small = least_times(kernel, at, SMALL_SAMPLE_BYTES);
        let large = least_times(kernel, at, LARGE_SAMPLE_BYTES);
        let _ = kernel.munmap(at, LARGE_SAMPLE_BYTES);
        size_where_lines_cross(small, large)
    }
}

/// The least time to zero and to give back so many bytes that are in memory, ns.
unsafe fn least_times(kernel: &impl Kernel, at: usize, len: usize) -> (u64, u64) {
    let range = Range::of_len(at, len);
    let mut least = (u64::MAX, u64::MAX);
    for _ in 0..MEASURED_ROUNDS {
        // SAFETY: the caller's mapping.
        unsafe {
            kernel.zero(range);
            let start = kernel.now_ns();
            kernel.zero(range);
            let zeroed = kernel.now_ns();
            let _ = kernel.madvise(at, len, MADV_DONTNEED);
            let given = kernel.now_ns();
            least.0 = least.0.min(zeroed.saturating_sub(start));
            least.1 = least.1.min(given.saturating_sub(zeroed));
        }
    }
    least
}

/// The size in bytes at which the line of zeroing crosses that of giving back; the greatest where it never does.
fn size_where_lines_cross(small: (u64, u64), large: (u64, u64)) -> usize {
    // In thousandths of a nanosecond a byte.
    let slope = |a: u64, b: u64| {
        b.saturating_sub(a) * 1000 / (LARGE_SAMPLE_BYTES - SMALL_SAMPLE_BYTES) as u64
    };
    let (zero, give) = (slope(small.0, large.0), slope(small.1, large.1));
    // By so many ns zeroing is ahead at the small size.
    let ahead = (small.1 + SHOOTDOWN_NS).saturating_sub(small.0);
    match zero.checked_sub(give) {
        Some(slower) if slower > 0 => {
            let more = usize::try_from(ahead * 1000 / slower).unwrap_or(MAX_ZEROED_BYTES);
            SMALL_SAMPLE_BYTES
                .saturating_add(more)
                .clamp(MIN_ZEROED_BYTES, MAX_ZEROED_BYTES)
        }
        _ => MAX_ZEROED_BYTES,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check the crossing of two lines, and its bounds.
    #[test]
    fn crosses() {
        // Zeroing 100 ns for the first and 0.1 ns a byte more; giving back 3,000 ns whatever the size.
        let more = (LARGE_SAMPLE_BYTES - SMALL_SAMPLE_BYTES) as u64;
        let found = size_where_lines_cross((100, 3000), (100 + more / 10, 3000));
        assert!(
            (found as i64 - (SMALL_SAMPLE_BYTES as i64 + 49_000)).abs() < 2_000,
            "{found}"
        );
        assert_eq!(
            size_where_lines_cross((100, 3000), (100, 9000)),
            MAX_ZEROED_BYTES
        );
        assert_eq!(
            size_where_lines_cross((9000, 1), (90_000, 1)),
            MIN_ZEROED_BYTES
        );
    }
}
