//! Where a mapping lies: an operation of one step a page table (2 MB of addresses) takes two steps where a mapping lies across
//! the border of two, and then the number of shootdowns is another.

use std::io;

use crate::memory::{HUGE_PAGE_BYTES, LabMapping, PAGE_BYTES};

/// A mapping of so many bytes within one page table, where it is no longer than half of one; a longer one may lie anywhere.
pub(super) fn map_in_one_table(bytes: usize) -> io::Result<LabMapping> {
    map_within_table(bytes, || LabMapping::anonymous(bytes))
}

/// The same for a mapping that `make` makes.
pub(super) fn map_within_table(
    bytes: usize,
    mut make: impl FnMut() -> io::Result<LabMapping>,
) -> io::Result<LabMapping> {
    // The kernel places downwards, so the next lies below the border that this one lies across (mm/vma.c:
    // unmapped_area_topdown()). Those that are in the way are unmapped untouched, which causes no shootdown.
    let mut in_the_way = Vec::new();
    loop {
        let mapping = make()?;
        if in_the_way.len() == 3 || page_tables(&mapping, bytes) == 1 {
            return Ok(mapping);
        }
        in_the_way.push(mapping);
    }
}

/// The number of page tables in which its first so many bytes lie.
fn page_tables(mapping: &LabMapping, bytes: usize) -> usize {
    let start = mapping.start().addr();
    (start + bytes.max(1) - 1) / HUGE_PAGE_BYTES - start / HUGE_PAGE_BYTES + 1
}

/// Up to so many pages [`map_in_one_table`] keeps its promise.
pub(super) const MAX_ONE_TABLE_PAGES: u64 = (HUGE_PAGE_BYTES / PAGE_BYTES / 2) as u64;

/// A mapping that has room for one huge page at the right alignment.
#[derive(Debug)]
pub(super) struct HugePageSlot {
    mapping: LabMapping,
    offset: usize,
}

impl HugePageSlot {
    pub(super) fn new() -> io::Result<Self> {
        let mapping = LabMapping::anonymous(2 * HUGE_PAGE_BYTES)?;
        let offset = mapping
            .start()
            .align_offset(HUGE_PAGE_BYTES)
            .min(HUGE_PAGE_BYTES);
        Ok(Self { mapping, offset })
    }

    pub(super) fn start(&self) -> *mut u8 {
        // SAFETY: the offset is within the mapping.
        unsafe { self.mapping.start().add(self.offset) }
    }

    /// Writes a byte into every page of the huge page's worth.
    pub(super) fn touch_pages(&self) {
        for offset in (0..HUGE_PAGE_BYTES).step_by(PAGE_BYTES) {
            // SAFETY: within the mapping, of which one huge page's worth at least lies behind the offset.
            unsafe { self.start().add(offset).write_volatile(1) };
        }
    }

    /// Advises the kernel about its first so many bytes.
    pub(super) fn advise(&self, bytes: usize, advice: i32) -> io::Result<()> {
        // SAFETY: within the mapping; advice changes at most the contents of its pages, and nobody relies on those.
        let ret = unsafe { libc::madvise(self.start().cast(), bytes.min(HUGE_PAGE_BYTES), advice) };
        if ret == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that small mappings never lie across a border, however often they are made, and that a huge page's
    /// worth begins at one.
    #[test]
    fn nothing_lies_across_a_border() {
        let mut all = Vec::new();
        for pages in 1..200 {
            let mapping = map_in_one_table(pages * PAGE_BYTES).unwrap();
            assert_eq!(
                page_tables(&mapping, pages * PAGE_BYTES),
                1,
                "{pages} pages"
            );
            all.push(mapping);
        }
        let aligned = HugePageSlot::new().unwrap();
        assert_eq!(aligned.start().addr() % HUGE_PAGE_BYTES, 0);
        aligned.touch_pages();
    }
}
