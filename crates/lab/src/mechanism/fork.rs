//! fork: it makes every private page of the parent read only, and so flushes all of it once; then each first write
//! of the parent is a fault (kernel/fork.c: dup_mmap(), mm/memory.c: do_wp_page()). The victim writes the pages, so
//! the faults are its own.

use std::io;

use rustix::io::retry_on_intr;
use rustix::process::{Pid, WaitOptions, waitpid};

use super::mapping_culprit::{MappingCulprit, VictimAccess, nothing_before};
use super::{DEFAULT_MECHANISM, StallMechanism, pages_param};
use crate::memory::{LabMapping, PAGE_BYTES};
use crate::resources::{ResourceDemand, pages_to_bytes};

pub(super) const FORK_MECHANISM: StallMechanism = StallMechanism {
    name: "fork",
    about: "fork and the end of the child, while the victim writes pages of the parent",
    params: &[pages_param(256, 1 << 16)],
    expects: |_| None,
    takes: |params| ResourceDemand {
        // A page that the victim writes while a child shares it is copied.
        once: pages_to_bytes(params.get("pages")),
        ..ResourceDemand::of_params(params)
    },
    makes_faults: true,
    prepare: |params| {
        Ok(Box::new(MappingCulprit {
            mapping: LabMapping::small_pages(params.size("pages") * PAGE_BYTES)?,
            victim: VictimAccess::Writes,
            before: nothing_before,
            operation: |_: &LabMapping| fork_and_wait(),
        }))
    },
    ..DEFAULT_MECHANISM
};

/// Makes a child that ends at once, and waits for it.
fn fork_and_wait() -> io::Result<()> {
    // SAFETY: the child calls nothing but _exit, which is safe to call whatever locks other threads held.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: ends the child at once.
        0 => unsafe { libc::_exit(0) },
        child => {
            let child = Pid::from_raw(child);
            retry_on_intr(|| waitpid(child, WaitOptions::empty()))?;
            Ok(())
        }
    }
}
