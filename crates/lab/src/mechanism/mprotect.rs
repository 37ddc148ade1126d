//! mprotect, there and back. A call gathers its changes and flushes once at its end (mm/mprotect.c: change_protection_range(),
//! tlb_finish_mmu()), if an entry changed in a way that needs it (pte_flags_need_flush() in arch/x86/include/asm/tlbflush.h,
//! Linux 6.1): the right to write does, in both directions; the right to read when it is taken, and not when it is given, for a
//! page that is not present is in no TLB. A page that is this process's alone gets its right to write back at once and not at the
//! next fault (can_change_pte_writable()), whether it was written in between or not.

use super::mapping_culprit::{MappingCulprit, VictimAccess, touch_before};
use super::{DEFAULT_MECHANISM, StallMechanism, pages_param};
use crate::memory::{LabMapping, PAGE_BYTES};
use crate::params::Param;

pub(super) const MPROTECT_MECHANISM: StallMechanism = StallMechanism {
    name: "mprotect",
    about: "mprotect to read only and back, of pages that were written in between",
    params: &[
        pages_param(1, 1 << 18),
        Param::new("none", "1: to no access at all and back", 0, (0, 1)),
    ],
    expects: |params| Some(if params.get("none") == 1 { 1.0 } else { 2.0 }),
    keeps_tables: true,
    prepare: |params| {
        let mapping = LabMapping::anonymous(params.size("pages") * PAGE_BYTES)?;
        let none = params.get("none") == 1;
        Ok(Box::new(MappingCulprit {
            mapping,
            victim: VictimAccess::Nothing,
            before: touch_before,
            operation: move |mapping: &LabMapping| {
                if none {
                    mapping.forbid_access(mapping.bytes())?;
                } else {
                    mapping.set_writable(mapping.bytes(), false)?;
                }
                mapping.set_writable(mapping.bytes(), true)
            },
        }))
    },
    ..DEFAULT_MECHANISM
};
