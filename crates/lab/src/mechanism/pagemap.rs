//! The kernel's words on the pages of a mapping: /proc/self/pagemap, 64 bits a page (Documentation/admin-guide/mm/pagemap.rst).

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use crate::memory::{LabMapping, PAGE_BYTES};

/// The pages of a mapping.
pub(super) struct Pagemap {
    file: File,
    from: u64,
    /// A buffer that is kept, so that reading allocates nothing.
    entries: Vec<u8>,
}

/// The entry of one page.
#[derive(Clone, Copy, Debug)]
pub(super) struct PagemapEntry(u64);

impl Pagemap {
    pub(super) fn of_mapping(mapping: &LabMapping) -> io::Result<Self> {
        Ok(Self {
            file: File::open("/proc/self/pagemap")?,
            from: (mapping.start().addr() / PAGE_BYTES) as u64 * 8,
            entries: vec![0; mapping.bytes() / PAGE_BYTES * 8],
        })
    }

    /// The entries as they are now.
    pub(super) fn read_entries(&mut self) -> io::Result<impl Iterator<Item = PagemapEntry>> {
        self.file.read_exact_at(&mut self.entries, self.from)?;
        Ok(self
            .entries
            .chunks_exact(8)
            .map(|e| PagemapEntry(e.try_into().map(u64::from_ne_bytes).unwrap_or(0))))
    }
}

impl PagemapEntry {
    pub(super) fn is_soft_dirty(self) -> bool {
        self.0 & (1 << 55) != 0
    }

    /// Its frame in physical memory, if it is present and the kernel says so (CAP_SYS_ADMIN).
    pub(super) fn frame_number(self) -> Option<u64> {
        let frame = self.0 & ((1 << 55) - 1);
        (self.0 & (1 << 63) != 0 && frame != 0).then_some(frame)
    }

    /// Whether it is present, and mapped at more than one place.
    pub(super) fn is_shared(self) -> bool {
        let (present, exclusive) = (self.0 & (1 << 63) != 0, self.0 & (1 << 56) != 0);
        present && !exclusive
    }
}
