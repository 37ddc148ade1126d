//! fork: it makes every private page of the parent read only, and so flushes all of it once; then each first write
//! of the parent is a fault (kernel/fork.c: dup_mmap(), mm/memory.c: do_wp_page()). The victim writes the pages, so
//! the faults are its own.

use std::io;

use super::{Culprit, DEFAULT, Mechanism, pages};
use crate::memory::{Mapping, PAGE};
use crate::room::{Takes, in_pages};
use crate::victim::Touch;

pub(super) const FORK: Mechanism = Mechanism {
    name: "fork",
    about: "fork and the end of the child, while the victim writes pages of the parent",
    params: &[pages(256, 1 << 16)],
    expects: |_| None,
    takes: |params| Takes {
        // A page that the victim writes while a child shares it is copied.
        once: in_pages(params.get("pages")),
        ..Takes::plain(params)
    },
    makes_faults: true,
    prepare: |params| {
        let mapping = Mapping::anonymous(params.size("pages") * PAGE)?;
        let _ = mapping.advise(mapping.bytes(), libc::MADV_NOHUGEPAGE);
        mapping.touch();
        Ok(Box::new(Fork { mapping }))
    },
    ..DEFAULT
};

struct Fork {
    mapping: Mapping,
}

impl Culprit for Fork {
    fn operate(&mut self) -> io::Result<()> {
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

    fn touch(&self) -> Option<Touch> {
        Some(Touch::new(self.mapping.start(), self.mapping.bytes(), true))
    }
}
