//! Collapse: 512 small pages become a huge one, as khugepaged does it or whoever asks by madvise. The page table is
//! taken away and flushed once (mm/khugepaged.c: collapse_huge_page(), pmdp_collapse_flush()); that nobody walks it
//! any more is made sure by another interrupt of every CPU, which is no shootdown but a call
//! (mm/mmu_gather.c: tlb_remove_table_sync_one()).

use std::io;

use super::{Culprit, DEFAULT_MECHANISM, StallMechanism};
use crate::memory::{HUGE_PAGE_BYTES, LabMapping, PAGE_BYTES};

pub(super) const COLLAPSE_MECHANISM: StallMechanism = StallMechanism {
    name: "collapse",
    about: "madvise(MADV_COLLAPSE) of 512 written small pages, which were split before",
    expects: |_| Some(1.0),
    prepare: |_| Ok(Box::new(Collapse::new()?)),
    lacks: || {
        let tried = Collapse::new()
            .and_then(|mut c| c.prepare_operation().and_then(|()| c.run_operation()));
        tried
            .err()
            .map(|err| format!("no MADV_COLLAPSE here (Linux 6.1, with huge pages): {err}"))
    },
    ..DEFAULT_MECHANISM
};

/// The number in include/uapi/asm-generic/mman-common.h.
const MADV_COLLAPSE: i32 = 25;

/// A collapse is tried so often, for a page may be in use for a moment.
const MAX_COLLAPSE_TRIES: usize = 8;

struct Collapse {
    place: LabMapping,
}

impl Collapse {
    fn new() -> io::Result<Self> {
        let place = LabMapping::aligned(HUGE_PAGE_BYTES, HUGE_PAGE_BYTES)?;
        place.touch_pages();
        Ok(Self { place })
    }
}

impl Culprit for Collapse {
    fn prepare_operation(&mut self) -> io::Result<()> {
        // A huge page of which a part goes is mapped by small ones from then on, and the page that takes the place of that part
        // is another.
        self.place.advise(PAGE_BYTES, libc::MADV_DONTNEED)?;
        self.place.touch_pages();
        Ok(())
    }

    fn run_operation(&mut self) -> io::Result<()> {
        let mut last = Ok(());
        for _ in 0..MAX_COLLAPSE_TRIES {
            last = self.place.advise(HUGE_PAGE_BYTES, MADV_COLLAPSE);
            match &last {
                // There is no huge page at once, or a page is in use: both are worth another try (madvise(2)).
                Err(err)
                    if matches!(
                        err.raw_os_error(),
                        Some(libc::EAGAIN | libc::EBUSY | libc::ENOMEM)
                    ) => {}
                _ => break,
            }
        }
        last
    }
}
