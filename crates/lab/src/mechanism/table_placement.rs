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

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that small mappings never lie across a border, however often they are made.
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
    }
}
