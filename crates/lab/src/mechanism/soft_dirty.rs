//! Soft-dirty: to find out which pages a process writes, checkpoints make all of it read only by a write to
//! clear_refs, and flush all of it once (fs/proc/task_mmu.c: clear_refs_write()). Each first write is a fault then.
//!
//! A huge page anywhere in the process is flushed once more, by itself (clear_soft_dirty_pmd(), by way of pmdp_invalidate()).
//! So this process has none meanwhile: khugepaged may make one of the heap at any time.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;

use super::pagemap::Pagemap;
use super::{Culprit, DEFAULT_MECHANISM, StallMechanism, pages_param};
use crate::memory::{LabMapping, PAGE_BYTES, set_huge_pages_off};
use crate::victim::TouchedMemory;

pub(super) const SOFT_DIRTY_MECHANISM: StallMechanism = StallMechanism {
    name: "soft-dirty",
    about: "4 written to /proc/self/clear_refs, while the victim writes pages: what a live checkpoint does",
    params: &[pages_param(256, 1 << 16)],
    expects: |_| Some(1.0),
    makes_faults: true,
    prepare: |params| {
        let mapping = LabMapping::small_pages(params.size("pages") * PAGE_BYTES)?;
        Ok(Box::new(SoftDirty {
            clear: clear_refs()?,
            mapping,
            _no_huge_pages: NoHugePages::from_now_on()?,
        }))
    },
    lacks: || match is_tracked() {
        Ok(true) => None,
        // Such a kernel flushes all the same, but makes nothing read only.
        Ok(false) => Some("this kernel has no soft-dirty (CONFIG_MEM_SOFT_DIRTY)".to_owned()),
        Err(err) => Some(format!(
            "can't clear soft-dirty (/proc/self/clear_refs): {err}"
        )),
    },
    ..DEFAULT_MECHANISM
};

fn clear_refs() -> io::Result<File> {
    OpenOptions::new().write(true).open("/proc/self/clear_refs")
}

/// Whether the kernel tells a page that was written since from one that was not.
fn is_tracked() -> io::Result<bool> {
    let mapping = LabMapping::anonymous(2 * PAGE_BYTES)?;
    mapping.touch_pages();
    clear_refs()?.write_all_at(b"4", 0)?;
    mapping.touch_first_pages(PAGE_BYTES);
    let mut pagemap = Pagemap::of_mapping(&mapping)?;
    let dirty: Vec<bool> = pagemap
        .read_entries()?
        .map(|entry| entry.is_soft_dirty())
        .collect();
    Ok(dirty == [true, false])
}

struct SoftDirty {
    clear: File,
    mapping: LabMapping,
    _no_huge_pages: NoHugePages,
}

/// The kernel makes no huge page in this process until this is dropped (prctl(2), PR_SET_THP_DISABLE). Present ones stay.
struct NoHugePages {
    were_off: bool,
}

impl NoHugePages {
    fn from_now_on() -> io::Result<Self> {
        // SAFETY: numbers only.
        let before = unsafe { libc::prctl(libc::PR_GET_THP_DISABLE, 0, 0, 0, 0) };
        set_huge_pages_off(true)?;
        Ok(NoHugePages {
            were_off: before == 1,
        })
    }
}

impl Drop for NoHugePages {
    fn drop(&mut self) {
        // It was allowed a moment ago; and without huge pages the process runs as well.
        let _ = set_huge_pages_off(self.were_off);
    }
}

impl Culprit for SoftDirty {
    fn run_operation(&mut self) -> io::Result<()> {
        self.clear.write_all_at(b"4", 0)
    }

    fn touched_memory(&self) -> Option<TouchedMemory> {
        Some(TouchedMemory::new(&self.mapping, true))
    }
}
