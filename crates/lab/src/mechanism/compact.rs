//! Compaction: pages are moved together so that free memory lies together. Up to 32 pages are unmapped and flushed at a time
//! (mm/compaction.c: COMPACT_CLUSTER_MAX, mm/migrate.c: migrate_pages_batch()). It takes the pages of every process, whoever
//! asks. So no page that an operation scattered is left when it is done: the sham would move pages of the victim's address space,
//! or the victim's process those of the sham, and each would have the other's shootdowns.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;

use super::{Culprit, DEFAULT_MECHANISM, StallMechanism};
use crate::memory::{LabMapping, PAGE_BYTES};
use crate::params::Param;
use crate::resources::{ResourceDemand, pages_to_bytes};

pub(super) const COMPACT_MECHANISM: StallMechanism = StallMechanism {
    name: "compact",
    about: "1 written to /proc/sys/vm/compact_memory, when every second page of memory was freed before",
    params: &[Param::new(
        "pages",
        "pages that are left to be moved",
        2048,
        (64, 1 << 20),
    )],
    expects: |_| None,
    makes_faults: true,
    prepare: |params| {
        Ok(Box::new(Compact {
            control: open_compact_memory()?,
            bytes: params.size("pages") * PAGE_BYTES,
            left: None,
        }))
    },
    takes: |params| {
        let bytes = pages_to_bytes(params.get("pages"));
        ResourceDemand {
            once: bytes,
            ..ResourceDemand::of_memory(bytes.saturating_mul(3))
        }
    },
    lacks: || {
        let refused = open_compact_memory().err();
        refused.map(|err| format!("can't ask for compaction (/proc/sys/vm/compact_memory): {err}"))
    },
    ..DEFAULT_MECHANISM
};

fn open_compact_memory() -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .open("/proc/sys/vm/compact_memory")
}

struct Compact {
    control: File,
    bytes: usize,
    left: Option<LabMapping>,
}

impl Culprit for Compact {
    fn prepare_operation(&mut self) -> io::Result<()> {
        // The pages of a block that failed go first, so that they don't lie beside the new ones.
        self.left = None;
        let left = LabMapping::anonymous(self.bytes)?;
        let freed = LabMapping::anonymous(self.bytes)?;
        for mapping in [&left, &freed] {
            let _ = mapping.advise(self.bytes, libc::MADV_NOHUGEPAGE);
        }
        // Both mappings are touched page by page in turn, so that their pages lie in memory in turn.
        for at in (0..self.bytes).step_by(PAGE_BYTES) {
            for mapping in [&left, &freed] {
                // SAFETY: within the mapping.
                unsafe { mapping.start().add(at).write_volatile(1) };
            }
        }
        drop(freed);
        self.left = Some(left);
        Ok(())
    }

    fn run_operation(&mut self) -> io::Result<()> {
        self.control.write_all_at(b"1", 0)
    }

    fn clean_up(&mut self) -> io::Result<()> {
        self.left = None;
        Ok(())
    }
}
