//! Reclaim on demand: madvise(MADV_PAGEOUT) walks the pages as reclaim does, unmaps them in batches and flushes a
//! batch at once (mm/rmap.c: try_to_unmap_flush()), but each dirty page before it is written out. The victim that
//! goes on touching them faults each back in: a major fault for anonymous memory, which takes swap, and for a clean
//! page of a file, which leaves the page cache; a minor one for a dirty page of a file, which only kswapd would write
//! out (mm/vmscan.c: shrink_folio_list()).

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;

use super::{Culprit, DEFAULT_MECHANISM, StallMechanism, pages_param};
use crate::memory::{LabMapping, PAGE_BYTES};
use crate::params::Param;
use crate::resources::{ResourceDemand, pages_to_bytes};
use crate::unnamed_file::create_written;
use crate::victim::TouchedMemory;

pub(super) const SWAP_MECHANISM: StallMechanism = StallMechanism {
    name: "swap",
    about: "madvise(MADV_PAGEOUT) of anonymous pages that the victim goes on writing",
    params: &[pages_param(256, 1 << 18)],
    expects: |_| None,
    keeps_tables: true,
    makes_faults: true,
    prepare: |params| {
        let mapping = LabMapping::small_pages(params.size("pages") * PAGE_BYTES)?;
        Ok(Box::new(Swap { mapping }))
    },
    needs: &[super::SystemNeed::Swap],
    lacks: || {
        let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
        (swaps.lines().count() < 2).then(|| "no swap to page out to (/proc/swaps)".to_owned())
    },
    ..DEFAULT_MECHANISM
};

pub(super) const RECLAIM_FILE_MECHANISM: StallMechanism = StallMechanism {
    name: "reclaim-file",
    about: "madvise(MADV_PAGEOUT) of a shared file mapping that the victim goes on reading",
    params: &[
        pages_param(256, 1 << 18),
        Param {
            name: "dirty",
            about: "1: the file was just written, so that its pages stay in the page cache; 0: they are read again",
            // Otherwise most of an operation is the disk's, and the victim waits for it and not for the mechanism.
            default: 1,
            range: (0, 1),
        },
    ],
    expects: |_| None,
    takes: |params| ResourceDemand::of_file(pages_to_bytes(params.get("pages"))),
    keeps_tables: true,
    makes_faults: true,
    prepare: |params| {
        let bytes = params.size("pages") * PAGE_BYTES;
        let file = create_written(bytes)?;
        let mapping = LabMapping::map_file(&file, bytes)?;
        Ok(Box::new(ReclaimFile {
            mapping,
            file,
            dirty: params.get("dirty") == 1,
        }))
    },
    ..DEFAULT_MECHANISM
};

struct ReclaimFile {
    mapping: LabMapping,
    file: File,
    dirty: bool,
}

impl Culprit for ReclaimFile {
    fn prepare_operation(&mut self) -> io::Result<()> {
        if self.dirty {
            // A byte a page is written by a call and not by the mapping, whose pages stay as they are.
            for at in (0..self.mapping.bytes()).step_by(PAGE_BYTES) {
                self.file.write_all_at(b"q", at as u64)?;
            }
        }
        Ok(())
    }

    fn run_operation(&mut self) -> io::Result<()> {
        self.mapping
            .advise(self.mapping.bytes(), libc::MADV_PAGEOUT)
    }

    fn touched_memory(&self) -> Option<TouchedMemory> {
        Some(TouchedMemory::new(
            self.mapping.start(),
            self.mapping.bytes(),
            false,
        ))
    }
}

struct Swap {
    mapping: LabMapping,
}

impl Culprit for Swap {
    fn run_operation(&mut self) -> io::Result<()> {
        self.mapping
            .advise(self.mapping.bytes(), libc::MADV_PAGEOUT)
    }

    fn touched_memory(&self) -> Option<TouchedMemory> {
        Some(TouchedMemory::new(
            self.mapping.start(),
            self.mapping.bytes(),
            true,
        ))
    }
}
