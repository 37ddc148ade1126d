//! Write-back of a writable shared file mapping: before a dirty page is written out it is made clean and read only,
//! so that the next write is noticed (mm/page-writeback.c: folio_clear_dirty_for_io(), mm/rmap.c:
//! folio_mkclean()). Each page is a flush and, for the victim that goes on writing, a fault.

use std::fs::File;
use std::io;

use rustix::mm::{MsyncFlags, msync};

use super::mapping_culprit::{MappingCulprit, VictimAccess, nothing_before};
use super::{DEFAULT_MECHANISM, StallMechanism, pages_param};
use crate::memory::{LabMapping, PAGE_BYTES};
use crate::resources::{ResourceDemand, pages_to_bytes};
use crate::unnamed_file::create_on_disk;

pub(super) const MSYNC_MECHANISM: StallMechanism = StallMechanism {
    name: "msync",
    about: "msync(MS_SYNC) of a shared file mapping whose pages the victim goes on writing",
    params: &[pages_param(512, 1 << 18)],
    expects: |_| None,
    keeps_tables: true,
    makes_faults: true,
    prepare: |params| {
        let (mapping, _) = map_written_file(params.size("pages") * PAGE_BYTES)?;
        Ok(Box::new(MappingCulprit {
            mapping,
            victim: VictimAccess::Writes,
            before: nothing_before,
            operation: |mapping: &LabMapping| {
                let at = mapping.start().cast();
                // SAFETY: the mapping is there with that length; its contents are not changed.
                Ok(unsafe { msync(at, mapping.bytes(), MsyncFlags::SYNC) }?)
            },
        }))
    },
    takes: |params| ResourceDemand::of_file(pages_to_bytes(params.get("pages"))),
    // A worker of the file system writes on behalf of the caller.
    daemons: &["kworker"],
    ..DEFAULT_MECHANISM
};

/// A mapping of a file on a disk, all of it written, and the file.
pub(super) fn map_written_file(bytes: usize) -> io::Result<(LabMapping, File)> {
    let file = create_on_disk(bytes)?;
    let mapping = LabMapping::map_file(&file, bytes)?;
    mapping.touch_pages();
    Ok((mapping, file))
}
