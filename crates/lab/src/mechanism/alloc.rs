//! malloc and free of the process's own: glibc's, or those of a preloaded allocator. Whether free causes shootdowns depends on
//! the memory that the allocator keeps. glibc maps a chunk of 128 KiB and more on its own at first; when such a one is freed it
//! raises that bound, up to 32 MiB, and takes the next from the heap, which it trims when more than twice the bound is free at
//! its end (malloc/malloc.c: free(), M_MMAP_THRESHOLD). So one such chunk at a time causes a shootdown once and never again;
//! several that are freed in a row are trimmed, and all beyond 32 MiB are unmapped each time.

use std::ffi::c_void;
use std::io;

use super::{Culprit, DEFAULT_MECHANISM, StallMechanism};
use crate::memory::PAGE_BYTES;
use crate::params::Param;
use crate::preload;
use crate::resources::ResourceDemand;

pub(super) const ALLOC_FREE_MECHANISM: StallMechanism = StallMechanism {
    name: "alloc-free",
    about: "free of written memory, by the allocator that the process has: glibc's, or what is preloaded",
    params: &[
        Param::new("bytes", "bytes of a chunk", 256 << 10, (1, 16 << 30)),
        Param::new("chunks", "chunks that are freed in a row", 8, (1, 1 << 16)),
    ],
    expects: |_| None,
    prepare: |params| {
        preload::check_preloaded()?;
        let chunks = params.size("chunks");
        Ok(Box::new(AllocFree {
            bytes: params.size("bytes"),
            chunks: Vec::with_capacity(chunks),
            most: chunks,
        }))
    },
    takes: |params| {
        // A chunk has at least a first page of its own.
        let chunk = params.get("bytes").max(PAGE_BYTES as u64);
        ResourceDemand::of_memory(chunk.saturating_mul(params.get("chunks")))
    },
    ..DEFAULT_MECHANISM
};

struct AllocFree {
    bytes: usize,
    chunks: Vec<*mut c_void>,
    most: usize,
}

// SAFETY: a chunk may be freed by another thread than has allocated it (malloc(3), MT-Safe).
unsafe impl Send for AllocFree {}

impl AllocFree {
    fn free_chunks(&mut self) {
        for chunk in self.chunks.drain(..) {
            // SAFETY: it comes from malloc, and is freed once.
            unsafe { libc::free(chunk) };
        }
    }
}

impl Culprit for AllocFree {
    fn prepare_operation(&mut self) -> io::Result<()> {
        // An operation before this one may have failed half-way.
        self.free_chunks();
        for _ in 0..self.most {
            // SAFETY: any size may be asked for.
            let chunk = unsafe { libc::malloc(self.bytes) };
            if chunk.is_null() {
                return Err(io::ErrorKind::OutOfMemory.into());
            }
            // There is room for all of them, so that nothing else is allocated.
            self.chunks.push(chunk);
            for at in (0..self.bytes).step_by(PAGE_BYTES) {
                // SAFETY: within the chunk.
                unsafe { chunk.cast::<u8>().add(at).write_volatile(1) };
            }
        }
        Ok(())
    }

    fn run_operation(&mut self) -> io::Result<()> {
        self.free_chunks();
        Ok(())
    }
}

impl Drop for AllocFree {
    fn drop(&mut self) {
        self.free_chunks();
    }
}
