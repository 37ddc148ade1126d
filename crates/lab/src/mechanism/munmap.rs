//! munmap of memory that was written: one flush a gather, and a gather ends with the range or when its batch is full
//! (mm/mmu_gather.c: MAX_GATHER_BATCH_COUNT, about 10,000 pages), so that a gigabyte of small pages takes some 30.

use std::io;

use super::{Culprit, DEFAULT_MECHANISM, MAX_GATHERED_PAGES, StallMechanism};
use crate::memory::{HUGE_PAGE_BYTES, LabMapping, PAGE_BYTES, huge_page_advice};
use crate::params::Param;
use crate::victim::TouchedMemory;

pub(super) const MUNMAP_MECHANISM: StallMechanism = StallMechanism {
    name: "munmap",
    about: "munmap of memory that was written: what free() does with a large chunk",
    params: &[
        Param::new("bytes", "bytes of an operation", 4096, (4096, 64 << 30)),
        Param::new("huge", "1: with transparent huge pages", 0, (0, 1)),
    ],
    expects: |params| {
        (params.get("bytes") <= MAX_GATHERED_PAGES * PAGE_BYTES as u64).then_some(1.0)
    },
    prepare: |params| {
        let (bytes, huge) = (params.size("bytes"), params.get("huge") == 1);
        Ok(Box::new(Munmap::new(bytes, huge)))
    },
    ..DEFAULT_MECHANISM
};

pub(super) struct Munmap {
    bytes: usize,
    huge: bool,
    next: Option<LabMapping>,
}

impl Munmap {
    pub(super) fn new(bytes: usize, huge: bool) -> Self {
        let next = None;
        Self { bytes, huge, next }
    }
}

impl Culprit for Munmap {
    fn prepare_operation(&mut self) -> io::Result<()> {
        // The memory of a block that failed goes first, so that it does not lie beside the new one.
        self.next = None;
        let mapping = if self.huge {
            LabMapping::aligned(self.bytes, HUGE_PAGE_BYTES)?
        } else {
            LabMapping::anonymous(self.bytes)?
        };
        let _ = mapping.advise(self.bytes, huge_page_advice(self.huge));
        mapping.touch_pages();
        self.next = Some(mapping);
        Ok(())
    }

    fn run_operation(&mut self) -> io::Result<()> {
        self.next = None;
        Ok(())
    }
}

impl Munmap {
    /// The memory of the next operation.
    pub(super) fn next_chunk(&self) -> Option<TouchedMemory> {
        let next = self.next.as_ref()?;
        Some(TouchedMemory::new(next, false))
    }
}
