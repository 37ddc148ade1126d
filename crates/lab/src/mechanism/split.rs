//! A huge page of which a part is treated otherwise than the rest: from then on it is mapped by 512 small entries and no longer
//! by one, and the TLB's copy of the one is flushed (mm/huge_memory.c: __split_huge_pmd_locked()). A border between two mappings
//! within it is enough (mm/vma.c: split_vma()), and is the split alone; madvise(MADV_DONTNEED) and mprotect of a part then flush
//! that part too. The page itself stays whole until memory is short.

use std::fs;
use std::io;

use super::{Culprit, DEFAULT_MECHANISM, StallMechanism};
use crate::memory::{HUGE_PAGE_BYTES, LabMapping, PAGE_BYTES};
use crate::params::Param;

pub(super) const SPLIT_MECHANISM: StallMechanism = StallMechanism {
    name: "split",
    about: "a huge page of which the first half is treated otherwise than the second",
    params: &[Param::new(
        "by",
        "0: MADV_DONTFORK, which is the split alone; 1: MADV_DONTNEED; 2: mprotect to read only",
        0,
        (0, 2),
    )],
    expects: |params| Some(if params.get("by") == 0 { 1.0 } else { 2.0 }),
    keeps_tables: true,
    prepare: |params| {
        Ok(Box::new(Split {
            by: params.get("by"),
            page: None,
        }))
    },
    lacks: || {
        match can_split() {
        Ok(true) => None,
        Ok(false) => Some(
            "no huge page was to be had, or none was split (/sys/kernel/mm/transparent_hugepage/enabled)"
                .to_owned(),
        ),
        Err(err) => Some(format!("can't split a huge page: {err}")),
    }
    },
    ..DEFAULT_MECHANISM
};

struct Split {
    by: u64,
    page: Option<LabMapping>,
}

/// Whether a huge page can be had and split, by the kernel's own count.
fn can_split() -> io::Result<bool> {
    let mut split = Split { by: 0, page: None };
    split.prepare_operation()?;
    let before = split_count()?;
    split.run_operation()?;
    Ok(split_count()? > before)
}

fn split_count() -> io::Result<u64> {
    let text = fs::read_to_string("/proc/vmstat")?;
    let n = text
        .lines()
        .find_map(|line| line.strip_prefix("thp_split_pmd ")?.trim().parse().ok());
    n.ok_or_else(|| io::Error::other("/proc/vmstat has no thp_split_pmd"))
}

impl Culprit for Split {
    fn prepare_operation(&mut self) -> io::Result<()> {
        // A huge page that was split stays so until it is unmapped: the page table stands in its place.
        self.page = None;
        let page = LabMapping::aligned(HUGE_PAGE_BYTES, HUGE_PAGE_BYTES)?;
        page.advise(HUGE_PAGE_BYTES, libc::MADV_HUGEPAGE)?;
        page.touch_first_pages(PAGE_BYTES);
        self.page = Some(page);
        Ok(())
    }

    fn run_operation(&mut self) -> io::Result<()> {
        let Some(page) = &self.page else {
            return Err(io::Error::other("nothing to split"));
        };
        match self.by {
            0 => page.advise(HUGE_PAGE_BYTES / 2, libc::MADV_DONTFORK),
            1 => page.advise(HUGE_PAGE_BYTES / 2, libc::MADV_DONTNEED),
            _ => page.set_writable(HUGE_PAGE_BYTES / 2, false),
        }
    }
}
