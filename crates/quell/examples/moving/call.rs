//! A shootdown that tells, by its address, which call it is of, and when that began and ended (CLOCK_MONOTONIC, ns).

use std::ptr;

const PAGE: usize = 4096;
const PAGES: usize = 2;
/// From one address to the next: room between two, so that no range touches another.
const SPACING: usize = 2 * PAGES * PAGE;
/// A page table of the lowest level maps 2 MB.
const CALLS_OF_A_TABLE: usize = (2 << 20) / SPACING;

/// Pages with an address for each call, so many at most. One mapping, for a range with page tables of its own would be
/// flushed with them.
pub(crate) struct Pages(*mut u8);

// SAFETY: a mapping of our own, which stays.
unsafe impl Send for Pages {}

impl Pages {
    /// Maps it there.
    pub(crate) fn map(address: usize, calls: usize) -> Self {
        let flags = libc::MAP_PRIVATE
            | libc::MAP_ANONYMOUS
            | libc::MAP_NORESERVE
            | libc::MAP_FIXED_NOREPLACE;
        // SAFETY: NOREPLACE takes no mapping away from anybody.
        let mapped = unsafe {
            libc::mmap(
                ptr::without_provenance_mut(address),
                calls * SPACING,
                libc::PROT_READ | libc::PROT_WRITE,
                flags,
                -1,
                0,
            )
        };
        assert_eq!(
            mapped.addr(),
            address,
            "mmap: {}",
            std::io::Error::last_os_error()
        );
        // SAFETY: mapped above; a huge page would be split, which shoots too.
        unsafe { libc::madvise(mapped, calls * SPACING, libc::MADV_NOHUGEPAGE) };
        Self(mapped.cast())
    }

    /// Writes to two pages, and gives them back.
    pub(crate) fn shoot(&self, call: usize) -> TimedCall {
        let pages = self.0.wrapping_add(call * SPACING);
        if call.is_multiple_of(CALLS_OF_A_TABLE) {
            // a page that stays: where a table is empty the kernel takes it too (since Linux 6.14), and flushes more
            // SAFETY: the caller mapped memory for so many calls, and this is of its room.
            unsafe { pages.add(PAGES * PAGE).write_volatile(1) };
        }
        for page in 0..PAGES {
            // SAFETY: the caller mapped memory for so many calls.
            unsafe { pages.add(page * PAGE).write_volatile(1) };
        }
        let began_ns = now_ns();
        // SAFETY: as above; the pages read as zero afterwards.
        let given_back = unsafe { libc::madvise(pages.cast(), PAGES * PAGE, libc::MADV_DONTNEED) };
        let ended_ns = now_ns();
        assert_eq!(
            given_back,
            0,
            "madvise: {}",
            std::io::Error::last_os_error()
        );
        TimedCall {
            address: pages.addr(),
            began_ns,
            ended_ns,
        }
    }
}

/// One that was made.
pub(crate) struct TimedCall {
    address: usize,
    began_ns: u64,
    ended_ns: u64,
}

impl TimedCall {
    /// The address, the thread, and when it began and ended.
    pub(crate) fn line(&self, thread: i32) -> String {
        let Self {
            address,
            began_ns,
            ended_ns,
        } = self;
        format!("{address} {thread} {began_ns} {ended_ns}")
    }
}

fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}
