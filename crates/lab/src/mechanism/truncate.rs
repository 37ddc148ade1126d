//! A file that is cut while it is mapped: truncate unmaps its pages from everybody first (mm/truncate.c:
//! truncate_pagecache()). A dirty page of a file must be flushed before the page table is unlocked (mm/memory.c:
//! zap_pte_range(), tlb_delay_rmap()), so that it is one flush a page table. The victim does not touch them: it would
//! get a SIGBUS.

use std::fs::File;
use std::io;

use super::place::{ONE_TABLE, within};
use super::{Culprit, DEFAULT, Mechanism, pages};
use crate::file::in_memory;
use crate::memory::{Mapping, PAGE};

pub(super) const TRUNCATE: Mechanism = Mechanism {
    name: "truncate",
    about: "ftruncate to nothing and back of a mapped file (memfd) whose pages were written",
    params: &[pages(64, 1 << 18)],
    expects: |params| {
        if params.get("pages") <= ONE_TABLE {
            Some(1.0)
        } else {
            None
        }
    },
    keeps_tables: true,
    prepare: |params| {
        let bytes = params.size("pages") * PAGE;
        let file = in_memory(bytes)?;
        let mapping = within(bytes, || Mapping::of_file(&file, bytes))?;
        Ok(Box::new(Truncate { file, mapping }))
    },
    ..DEFAULT
};

struct Truncate {
    file: File,
    mapping: Mapping,
}

impl Culprit for Truncate {
    fn before(&mut self) -> io::Result<()> {
        self.mapping.touch();
        Ok(())
    }

    fn operate(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.set_len(self.mapping.bytes() as u64)
    }
}
