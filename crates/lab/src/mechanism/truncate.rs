//! A file that is cut while it is mapped: truncate unmaps its pages from everybody first (mm/truncate.c:
//! truncate_pagecache()). A dirty page of a file must be flushed before the page table is unlocked (mm/memory.c:
//! zap_pte_range(), tlb_delay_rmap()), so that it is one flush a page table. The victim does not touch them: it would
//! get a SIGBUS.

use std::fs::File;
use std::io;

use super::table_placement::{MAX_ONE_TABLE_PAGES, map_within_table};
use super::{Culprit, DEFAULT_MECHANISM, StallMechanism, pages_param};
use crate::memory::{LabMapping, PAGE_BYTES};
use crate::unnamed_file::create_in_memory;

pub(super) const TRUNCATE_MECHANISM: StallMechanism = StallMechanism {
    name: "truncate",
    about: "ftruncate to nothing and back of a mapped file (memfd) whose pages were written",
    params: &[pages_param(64, 1 << 18)],
    expects: |params| (params.get("pages") <= MAX_ONE_TABLE_PAGES).then_some(1.0),
    keeps_tables: true,
    prepare: |params| {
        let bytes = params.size("pages") * PAGE_BYTES;
        let file = create_in_memory(bytes)?;
        let mapping = map_within_table(bytes, || LabMapping::map_file(&file, bytes))?;
        Ok(Box::new(Truncate { file, mapping }))
    },
    ..DEFAULT_MECHANISM
};

struct Truncate {
    file: File,
    mapping: LabMapping,
}

impl Culprit for Truncate {
    fn prepare_operation(&mut self) -> io::Result<()> {
        self.mapping.touch_pages();
        Ok(())
    }

    fn run_operation(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.set_len(self.mapping.bytes() as u64)
    }
}
