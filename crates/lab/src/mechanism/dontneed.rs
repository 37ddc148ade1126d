//! madvise: MADV_DONTNEED takes the pages away at once, MADV_FREE makes them clean so that reclaim may. Both flush
//! once a call (MADV_DONTNEED once a full gather, see munmap), the range up to tlb_single_page_flush_ceiling (33 pages by default, arch/x86/mm/tlb.c) page by
//! page, and everything beyond: the cost has a step there, and falls.

use std::io;

use super::{Culprit, DEFAULT, GATHERED, Mechanism, pages};
use crate::memory::{Mapping, PAGE};

pub(super) const DONTNEED: Mechanism = Mechanism {
    name: "dontneed",
    about: "madvise(MADV_DONTNEED) of pages that were just written",
    params: &[pages(1, 1 << 18)],
    expects: |params| {
        if params.get("pages") <= GATHERED {
            Some(1.0)
        } else {
            None
        }
    },
    keeps_tables: true,
    prepare: |params| prepare(params.size("pages"), libc::MADV_DONTNEED),
    ..DEFAULT
};

pub(super) const FREE: Mechanism = Mechanism {
    name: "madv-free",
    about: "madvise(MADV_FREE) of pages that were just written",
    params: &[pages(64, 1 << 18)],
    expects: |_| Some(1.0),
    keeps_tables: true,
    prepare: |params| prepare(params.size("pages"), libc::MADV_FREE),
    ..DEFAULT
};

struct Advise {
    mapping: Mapping,
    advice: i32,
}

fn prepare(pages: usize, advice: i32) -> io::Result<Box<dyn Culprit>> {
    Ok(Box::new(Advise {
        mapping: Mapping::anonymous(pages * PAGE)?,
        advice,
    }))
}

impl Culprit for Advise {
    fn before(&mut self) -> io::Result<()> {
        self.mapping.touch();
        Ok(())
    }

    fn operate(&mut self) -> io::Result<()> {
        self.mapping.advise(self.mapping.bytes(), self.advice)
    }
}
