//! mremap that moves: the old place is flushed (mm/mremap.c: move_page_tables()), once a page table of the old place
//! and of the new one, and the munmap of the new place once more.

use std::io;

use rustix::mm::{MremapFlags, mremap_fixed, munmap};

use super::table_placement::{MAX_ONE_TABLE_PAGES, map_in_one_table};
use super::{Culprit, DEFAULT_MECHANISM, StallMechanism, pages_param};
use crate::memory::{LabMapping, PAGE_BYTES};

pub(super) const MREMAP_MECHANISM: StallMechanism = StallMechanism {
    name: "mremap",
    about: "mremap of written pages to another place, and munmap of them there",
    params: &[pages_param(16, 1 << 12)],
    expects: |params| (params.get("pages") <= MAX_ONE_TABLE_PAGES).then_some(2.0),
    prepare: |params| {
        Ok(Box::new(Mremap {
            bytes: params.size("pages") * PAGE_BYTES,
            from: None,
            to: None,
        }))
    },
    ..DEFAULT_MECHANISM
};

struct Mremap {
    bytes: usize,
    from: Option<LabMapping>,
    to: Option<LabMapping>,
}

impl Culprit for Mremap {
    fn prepare_operation(&mut self) -> io::Result<()> {
        let from = map_in_one_table(self.bytes)?;
        from.touch_pages();
        self.from = Some(from);
        // The target is never touched, so that to replace it flushes nothing.
        self.to = Some(map_in_one_table(self.bytes)?);
        Ok(())
    }

    fn run_operation(&mut self) -> io::Result<()> {
        let (Some(from), Some(to)) = (self.from.take(), self.to.take()) else {
            return Err(io::Error::other("nothing to move"));
        };
        let (from, _) = from.into_raw();
        let (to, bytes) = to.into_raw();
        // SAFETY: both are mappings of this length that nobody else knows; the first is gone after the first call,
        // and the second after the second.
        unsafe {
            mremap_fixed(from.cast(), bytes, bytes, MremapFlags::MAYMOVE, to.cast())?;
            munmap(to.cast(), bytes)?;
        }
        Ok(())
    }
}
