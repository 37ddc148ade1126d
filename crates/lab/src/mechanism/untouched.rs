//! The negative control: a mapping that nobody has touched has no page tables, so nothing to flush (mm/mmap.c: unmap_region()
//! gathers no page, and tlb_finish_mmu() flushes gathered pages only).

use std::io;

use super::{Culprit, DEFAULT_MECHANISM, StallMechanism, pages_param};
use crate::memory::{LabMapping, PAGE_BYTES};

pub(super) const UNTOUCHED_MECHANISM: StallMechanism = StallMechanism {
    name: "untouched",
    about: "mmap and munmap of memory that nobody has touched: the negative control",
    params: &[pages_param(16, 1 << 20)],
    prepare: |params| {
        Ok(Box::new(Untouched {
            bytes: params.size("pages") * PAGE_BYTES,
        }))
    },
    ..DEFAULT_MECHANISM
};

struct Untouched {
    bytes: usize,
}

impl Culprit for Untouched {
    fn run_operation(&mut self) -> io::Result<()> {
        LabMapping::anonymous(self.bytes).map(drop)
    }
}
