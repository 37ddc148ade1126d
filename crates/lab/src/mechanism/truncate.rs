//! A file that is cut while it is mapped: truncate unmaps its pages from everybody first (mm/truncate.c:
//! truncate_pagecache()). A dirty page of a file must be flushed before the page table is unlocked (mm/memory.c:
//! zap_pte_range(), tlb_delay_rmap()), so that it is one flush a page table. The victim does not touch them: it would
//! get a SIGBUS.

use super::mapping_culprit::{MappingCulprit, VictimAccess, touch_before};
use super::table_placement::{MAX_ONE_TABLE_PAGES, map_within_table};
use super::{DEFAULT_MECHANISM, StallMechanism, pages_param};
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
        Ok(Box::new(MappingCulprit {
            mapping: map_within_table(bytes, || LabMapping::map_file(&file, bytes))?,
            victim: VictimAccess::Nothing,
            before: touch_before,
            operation: move |mapping: &LabMapping| {
                file.set_len(0)?;
                file.set_len(mapping.bytes() as u64)
            },
        }))
    },
    ..DEFAULT_MECHANISM
};
