//! The negative control: a mapping that nobody has touched has no page tables, so nothing to flush (mm/mmap.c: unmap_region()
//! gathers no page, and tlb_finish_mmu() flushes gathered pages only).

use std::io;

use super::{Culprit, DEFAULT, Mechanism, pages};
use crate::memory::{Mapping, PAGE};

pub(super) const UNTOUCHED: Mechanism = Mechanism {
    name: "untouched",
    about: "mmap and munmap of memory that nobody has touched: the negative control",
    params: &[pages(16, 1 << 20)],
    prepare: |params| {
        Ok(Box::new(Untouched {
            bytes: params.size("pages") * PAGE,
        }))
    },
    ..DEFAULT
};

struct Untouched {
    bytes: usize,
}

impl Culprit for Untouched {
    fn operate(&mut self) -> io::Result<()> {
        Mapping::anonymous(self.bytes).map(drop)
    }
}
