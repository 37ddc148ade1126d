//! fork: it makes every private page of the parent read only, and so flushes all of it once; then each first write
//! of the parent is a fault (kernel/fork.c: dup_mmap(), mm/memory.c: do_wp_page()). The victim writes the pages, so
//! the faults are its own.

use std::io;

use super::{Culprit, DEFAULT_MECHANISM, StallMechanism, pages_param};
use crate::memory::{LabMapping, PAGE_BYTES};
use crate::resources::{ResourceDemand, pages_to_bytes};
use crate::victim::TouchedMemory;

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
        let mapping = LabMapping::small_pages(params.size("pages") * PAGE_BYTES)?;
        Ok(Box::new(Fork { mapping }))
    },
    ..DEFAULT_MECHANISM
};

struct Fork {
    mapping: LabMapping,
}

impl Culprit for Fork {
    fn run_operation(&mut self) -> io::Result<()> {
        // SAFETY: the child calls nothing but _exit, which is safe to call whatever locks other threads held.
        let child = unsafe { libc::fork() };
        match child {
            -1 => Err(io::Error::last_os_error()),
            // SAFETY: ends the child at once.
            0 => unsafe { libc::_exit(0) },
            child => {
                let mut status = 0;
                // SAFETY: the child is our own, and `status` is ours to write.
                while unsafe { libc::waitpid(child, &raw mut status, 0) } == -1 {
                    let err = io::Error::last_os_error();
                    if err.kind() != io::ErrorKind::Interrupted {
                        return Err(err);
                    }
                }
                Ok(())
            }
        }
    }

    fn touched_memory(&self) -> Option<TouchedMemory> {
        Some(TouchedMemory::new(
            self.mapping.start(),
            self.mapping.bytes(),
            true,
        ))
    }
}
