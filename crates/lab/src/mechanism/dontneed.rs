//! madvise: MADV_DONTNEED takes the pages away at once, MADV_FREE makes them clean so that reclaim may. Both flush
//! once a call (MADV_DONTNEED once a full gather, see munmap), the range up to tlb_single_page_flush_ceiling (33 pages by default, arch/x86/mm/tlb.c) page by
//! page, and everything beyond: the cost has a step there, and falls.

use std::io;

use super::mapping_culprit::{MappingCulprit, VictimAccess, touch_before};
use super::{Culprit, DEFAULT_MECHANISM, MAX_GATHERED_PAGES, StallMechanism, pages_param};
use crate::memory::{LabMapping, PAGE_BYTES};

pub(super) const DONTNEED_MECHANISM: StallMechanism = StallMechanism {
    name: "dontneed",
    about: "madvise(MADV_DONTNEED) of pages that were just written",
    params: &[pages_param(1, 1 << 18)],
    expects: |params| (params.get("pages") <= MAX_GATHERED_PAGES).then_some(1.0),
    keeps_tables: true,
    prepare: |params| prepare_advice(params.size("pages"), libc::MADV_DONTNEED),
    ..DEFAULT_MECHANISM
};

pub(super) const MADV_FREE_MECHANISM: StallMechanism = StallMechanism {
    name: "madv-free",
    about: "madvise(MADV_FREE) of pages that were just written",
    params: &[pages_param(64, 1 << 18)],
    expects: |_| Some(1.0),
    keeps_tables: true,
    prepare: |params| prepare_advice(params.size("pages"), libc::MADV_FREE),
    ..DEFAULT_MECHANISM
};

fn prepare_advice(pages: usize, advice: i32) -> io::Result<Box<dyn Culprit>> {
    Ok(Box::new(MappingCulprit {
        mapping: LabMapping::anonymous(pages * PAGE_BYTES)?,
        victim: VictimAccess::Nothing,
        before: touch_before,
        operation: move |mapping: &LabMapping| mapping.advise(mapping.bytes(), advice),
    }))
}
