//! Reclaim on demand: madvise(MADV_PAGEOUT) walks the pages as reclaim does, unmaps them in batches and flushes a
//! batch at once (mm/rmap.c: try_to_unmap_flush()), but each dirty page before it is written out. The victim that
//! goes on touching them faults each back in: a major fault for anonymous memory, which takes swap, and for a clean
//! page of a file, which leaves the page cache; a minor one for a dirty page of a file, which only kswapd would write
//! out (mm/vmscan.c: shrink_folio_list()).

use std::io;
use std::os::unix::fs::FileExt as _;

use super::mapping_culprit::{MappingCulprit, VictimAccess, nothing_before};
use super::{DEFAULT_MECHANISM, StallMechanism, SystemNeed, pages_param};
use crate::memory::{LabMapping, PAGE_BYTES};
use crate::params::Param;
use crate::resources::{ResourceDemand, pages_to_bytes};
use crate::unnamed_file::create_written;

pub(super) const SWAP_MECHANISM: StallMechanism = StallMechanism {
    name: "swap",
    about: "madvise(MADV_PAGEOUT) of anonymous pages that the victim goes on writing",
    params: &[pages_param(256, 1 << 18)],
    expects: |_| None,
    keeps_tables: true,
    makes_faults: true,
    prepare: |params| {
        Ok(Box::new(MappingCulprit {
            mapping: LabMapping::small_pages(params.size("pages") * PAGE_BYTES)?,
            victim: VictimAccess::Writes,
            before: nothing_before,
            operation: page_out,
        }))
    },
    needs: &[SystemNeed::Swap],
    lacks: || {
        let swaps = SystemNeed::Swap.is_there();
        (!swaps).then(|| "no swap to page out to (/proc/swaps)".to_owned())
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
        let dirty = params.get("dirty") == 1;
        Ok(Box::new(MappingCulprit {
            mapping: LabMapping::map_file(&file, bytes)?,
            victim: VictimAccess::Reads,
            before: move |mapping: &LabMapping| {
                // A byte a page is written by a call and not by the mapping, whose pages stay as they are.
                for at in (0..mapping.bytes()).step_by(PAGE_BYTES).filter(|_| dirty) {
                    file.write_all_at(b"q", at as u64)?;
                }
                Ok(())
            },
            operation: page_out,
        }))
    },
    ..DEFAULT_MECHANISM
};

fn page_out(mapping: &LabMapping) -> io::Result<()> {
    mapping.advise(mapping.bytes(), libc::MADV_PAGEOUT)
}
