//! The kernel's word on single pages (Documentation/admin-guide/mm/pagemap.rst).

use core::sync::atomic::{AtomicBool, Ordering};

use super::file::File;
use super::kept_open::{ENOTTY, KeptOpenFile};
use super::{nr, syscall};
use crate::kernel::Errno;
use crate::{PAGE, Range};

/// At a time, so that any stack has room for them.
const ENTRIES_PER_READ: usize = 128;
/// The page is in memory.
const PRESENT_BIT: u64 = 1 << 63;
/// It is swapped out, or there is a mark in its place; the low bits say which.
const SWAPPED_BIT: u64 = 1 << 62;
const SWAP_TYPE: u64 = 0x1f;
/// Types from this one on are for migration, damaged pages, devices and marks (include/linux/swap.h: there are 32, and no
/// more than ten of those are special).
const MOST_SWAP_FILES: u64 = 22;
/// And nobody else maps it. When the other process has exited, run another program or written the page, the bit
/// is back.
const EXCLUSIVE_BIT: u64 = 1 << 56;

const PAGEMAP_FILE: File<'_> = File::named(b"/proc/self/pagemap\0");
static PAGEMAP_DESCRIPTOR: KeptOpenFile = KeptOpenFile::for_file(PAGEMAP_FILE);
/// The kernel has no such query.
static NO_SCAN: AtomicBool = AtomicBool::new(false);

/// `_IOWR('f', 16, struct pm_scan_arg)`.
const PAGEMAP_SCAN: usize = 0xc060_6610;
const PAGE_IS_PRESENT: u64 = 1 << 3;
const PAGE_IS_SWAPPED: u64 = 1 << 4;
/// The page of zeros; and a huge page, which may be the huge one of zeros: of that not all kernels tell.
const PAGE_IS_PFNZERO: u64 = 1 << 5;
const PAGE_IS_HUGE: u64 = 1 << 6;

/// `struct pm_scan_arg` (include/uapi/linux/fs.h, Linux 6.7).
#[repr(C)]
#[derive(Default)]
struct ScanArguments {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    found_at: u64,
    found_room: u64,
    most_pages: u64,
    inverted: u64,
    wanted: u64,
    wanted_any: u64,
    told: u64,
}

/// See [`Kernel::has_nothing`](crate::Kernel::has_nothing).
pub(super) fn has_nothing(range: Range) -> bool {
    has_any(range, PAGE_IS_PRESENT | PAGE_IS_SWAPPED) == Some(false)
}

/// Whether none of a range is the page of zeros for sure. Otherwise it may be, or can't be told.
pub(super) fn has_no_page_of_zeros(range: Range) -> bool {
    has_any(range, PAGE_IS_PFNZERO | PAGE_IS_HUGE) == Some(false)
}

/// Whether a page of the range is of one of these kinds; none where that can't be told.
fn has_any(range: Range, kinds: u64) -> Option<bool> {
    if NO_SCAN.load(Ordering::Relaxed) {
        return None;
    }
    let asked = PAGEMAP_DESCRIPTOR.ask_file(|fd| {
        // A page_region: begin, end and kinds. One is enough.
        let mut found = [0_u64; 3];
        let mut scan = ScanArguments {
            size: size_of::<ScanArguments>() as u64,
            start: range.start as u64,
            end: range.end as u64,
            found_at: (&raw mut found) as u64,
            found_room: 1,
            most_pages: 1,
            wanted_any: kinds,
            told: kinds,
            ..ScanArguments::default()
        };
        let args = [fd, PAGEMAP_SCAN, (&raw mut scan) as usize, 0, 0, 0];
        // SAFETY: the kernel writes into our own places, no more than there is room for.
        unsafe { syscall(nr::IOCTL, args) }
    });
    if let Some(Err(Errno(ENOTTY))) = asked {
        NO_SCAN.store(true, Ordering::Relaxed);
    }
    asked?.ok().map(|found| found > 0)
}

/// See [`KeptOpenFile::forget_descriptor`].
pub(super) fn forget_descriptor(may_close: impl Fn() -> bool) {
    PAGEMAP_DESCRIPTOR.forget_descriptor(may_close);
}

/// Shows the entries of a range, so many at a time, until `go_on` says no. Whether it never did; none where they can't be read.
fn each_entries(range: Range, mut go_on: impl FnMut(&[u64]) -> bool) -> Option<bool> {
    let all = |fd| {
        let mut entries = [0_u64; ENTRIES_PER_READ];
        let mut start = range.start;
        while start < range.end {
            let pages = ENTRIES_PER_READ.min((range.end - start) / PAGE);
            let at = entries.as_mut_ptr() as usize;
            let args = [fd, at, pages * 8, start / PAGE * 8, 0, 0];
            // SAFETY: the kernel writes as many entries as there is room for.
            let got = unsafe { syscall(nr::PREAD64, args) };
            if got != Ok(pages * 8) {
                return None;
            }
            if !go_on(&entries[..pages]) {
                return Some(false);
            }
            start += pages * PAGE;
        }
        Some(true)
    };
    PAGEMAP_FILE.with_open(all)?
}

/// Whether nobody else maps a page of the range; false where that can't be read.
pub(super) fn are_exclusive(range: Range) -> bool {
    let shared = |entry: &u64| entry & PRESENT_BIT != 0 && entry & EXCLUSIVE_BIT == 0;
    each_entries(range, |entries| !entries.iter().any(shared)) == Some(true)
}

/// Whether each page is in memory or swapped out. A page that was never touched since it was mapped is neither, nor is a
/// guard page; before Linux 6.15 a guard page looks as if it was swapped out, but for its type. None where that can't be read.
pub(super) fn all_there(range: Range) -> Option<bool> {
    let there = |entry: &u64| {
        entry & PRESENT_BIT != 0 || entry & SWAPPED_BIT != 0 && entry & SWAP_TYPE < MOST_SWAP_FILES
    };
    each_entries(range, |entries| entries.iter().all(there))
}
