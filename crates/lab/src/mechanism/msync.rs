//! Write-back of a writable shared file mapping: before a dirty page is written out it is made clean and read only,
//! so that the next write is noticed (mm/page-writeback.c: folio_clear_dirty_for_io(), mm/rmap.c:
//! folio_mkclean()). Each page is a flush and, for the victim that goes on writing, a fault.

use std::fs::File;
use std::io;

use super::{Culprit, DEFAULT, Mechanism, pages};
use crate::file::on_disk;
use crate::memory::{Mapping, PAGE};
use crate::room::{Takes, in_pages};
use crate::victim::Touch;

pub(super) const MSYNC: Mechanism = Mechanism {
    name: "msync",
    about: "msync(MS_SYNC) of a shared file mapping whose pages the victim goes on writing",
    params: &[pages(512, 1 << 18)],
    expects: |_| None,
    keeps_tables: true,
    makes_faults: true,
    prepare: |params| {
        let written = Written::new(params.size("pages") * PAGE)?;
        Ok(Box::new(Msync { written }))
    },
    takes: |params| Takes::file(in_pages(params.get("pages"))),
    // A worker of the file system writes on behalf of the caller.
    daemons: &["kworker"],
    ..DEFAULT
};

struct Msync {
    written: Written,
}

/// A mapping of a file on a disk, all of it written.
pub(super) struct Written {
    file: File,
    mapping: Mapping,
}

impl Written {
    pub(super) fn new(bytes: usize) -> io::Result<Self> {
        let file = on_disk(bytes)?;
        let mapping = Mapping::of_file(&file, bytes)?;
        mapping.touch();
        Ok(Self { file, mapping })
    }
}

/// It writes the file back by its descriptor, as databases do.
impl Culprit for Written {
    fn operate(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn touch(&self) -> Option<Touch> {
        Some(Touch::new(self.mapping.start(), self.mapping.bytes(), true))
    }
}

impl Culprit for Msync {
    fn operate(&mut self) -> io::Result<()> {
        let mapping = &self.written.mapping;
        // SAFETY: the mapping is there with that length; its contents are not changed.
        if unsafe { libc::msync(mapping.start().cast(), mapping.bytes(), libc::MS_SYNC) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    fn touch(&self) -> Option<Touch> {
        self.written.touch()
    }
}
