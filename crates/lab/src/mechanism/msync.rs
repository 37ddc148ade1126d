//! Write-back of a writable shared file mapping: before a dirty page is written out it is made clean and read only,
//! so that the next write is noticed (mm/page-writeback.c: folio_clear_dirty_for_io(), mm/rmap.c:
//! folio_mkclean()). Each page is a flush and, for the victim that goes on writing, a fault.

use std::fs::File;
use std::io;

use super::{Culprit, DEFAULT_MECHANISM, StallMechanism, pages_param};
use crate::memory::{LabMapping, PAGE_BYTES};
use crate::resources::{ResourceDemand, pages_to_bytes};
use crate::unnamed_file::create_on_disk;
use crate::victim::TouchedMemory;

pub(super) const MSYNC_MECHANISM: StallMechanism = StallMechanism {
    name: "msync",
    about: "msync(MS_SYNC) of a shared file mapping whose pages the victim goes on writing",
    params: &[pages_param(512, 1 << 18)],
    expects: |_| None,
    keeps_tables: true,
    makes_faults: true,
    prepare: |params| {
        let written = WrittenFile::new(params.size("pages") * PAGE_BYTES)?;
        Ok(Box::new(Msync { written }))
    },
    takes: |params| ResourceDemand::of_file(pages_to_bytes(params.get("pages"))),
    // A worker of the file system writes on behalf of the caller.
    daemons: &["kworker"],
    ..DEFAULT_MECHANISM
};

struct Msync {
    written: WrittenFile,
}

/// A mapping of a file on a disk, all of it written.
pub(super) struct WrittenFile {
    file: File,
    mapping: LabMapping,
}

impl WrittenFile {
    pub(super) fn new(bytes: usize) -> io::Result<Self> {
        let file = create_on_disk(bytes)?;
        let mapping = LabMapping::map_file(&file, bytes)?;
        mapping.touch_pages();
        Ok(Self { file, mapping })
    }
}

/// It writes the file back by its descriptor, as databases do.
impl Culprit for WrittenFile {
    fn run_operation(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn touched_memory(&self) -> Option<TouchedMemory> {
        Some(TouchedMemory::new(
            self.mapping.start(),
            self.mapping.bytes(),
            true,
        ))
    }
}

impl Culprit for Msync {
    fn run_operation(&mut self) -> io::Result<()> {
        let mapping = &self.written.mapping;
        // SAFETY: the mapping is there with that length; its contents are not changed.
        if unsafe { libc::msync(mapping.start().cast(), mapping.bytes(), libc::MS_SYNC) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    fn touched_memory(&self) -> Option<TouchedMemory> {
        self.written.touched_memory()
    }
}
