//! What the kernel says of single pages (Documentation/admin-guide/mm/pagemap.rst).

use super::file::File;
use super::{nr, syscall};
use crate::{PAGE, Range};

/// At a time, so that any stack has room for them.
const PAGES: usize = 256;
/// It is in memory.
const PRESENT: u64 = 1 << 63;
/// And nobody else maps it. When the other process has exited, run another program or written the page, the bit
/// is back.
const EXCLUSIVE: u64 = 1 << 56;

/// Shows the entries of a range, so many at a time, until `go_on` says no. Whether it never did, and all could be
/// read.
fn each(range: Range, mut go_on: impl FnMut(&[u64]) -> bool) -> bool {
    let all = |fd| {
        let mut entries = [0_u64; PAGES];
        let mut start = range.start;
        while start < range.end {
            let pages = PAGES.min((range.end - start) / PAGE);
            let at = entries.as_mut_ptr() as usize;
            let args = [fd, at, pages * 8, start / PAGE * 8, 0, 0];
            // SAFETY: the kernel writes as many entries as there is room for.
            let got = unsafe { syscall(nr::PREAD64, args) };
            if got != Ok(pages * 8) || !go_on(&entries[..pages]) {
                return false;
            }
            start += pages * PAGE;
        }
        true
    };
    File::named(b"/proc/self/pagemap\0").with(all) == Some(true)
}

/// Whether nobody else maps a page of the range, up to the first that somebody does.
pub(super) fn are_exclusive(range: Range) -> bool {
    let shared = |entry: &u64| entry & PRESENT != 0 && entry & EXCLUSIVE == 0;
    each(range, |entries| !entries.iter().any(shared))
}

/// Which pages are in memory, as mincore(2) says it; false if that can't be told.
pub(super) fn are_there(range: Range, pages: &mut [u8]) -> bool {
    let mut pages = pages.iter_mut();
    each(range, |entries| {
        for (entry, page) in entries.iter().zip(&mut pages) {
            *page = u8::from(entry & PRESENT != 0);
        }
        true
    })
}
