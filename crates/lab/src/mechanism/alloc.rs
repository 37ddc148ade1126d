//! malloc and free of the process's own: glibc's, or those of a preloaded allocator. Whether free causes shootdowns depends on
//! the memory that the allocator keeps. glibc maps a chunk of 128 KiB and more on its own at first; when such a one is freed it
//! raises that bound, up to 32 MiB, and takes the next from the heap, which it trims when more than twice the bound is free at
//! its end (malloc/malloc.c: free(), M_MMAP_THRESHOLD). So one such chunk at a time causes a shootdown once and never again;
//! several that are freed in a row are trimmed, and all beyond 32 MiB are unmapped each time.

use std::io;

use super::{Culprit, DEFAULT_MECHANISM, StallMechanism};
use crate::malloc_block::MallocBlock;
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
    chunks: Vec<MallocBlock>,
    most: usize,
}

impl Culprit for AllocFree {
    fn prepare_operation(&mut self) -> io::Result<()> {
        // An operation before this one may have failed half-way.
        self.chunks.clear();
        for _ in 0..self.most {
            let chunk = MallocBlock::new(self.bytes).ok_or(io::ErrorKind::OutOfMemory)?;
            // There is room for all of them, so that nothing else is allocated.
            self.chunks.push(chunk);
        }
        Ok(())
    }

    fn run_operation(&mut self) -> io::Result<()> {
        self.chunks.clear();
        Ok(())
    }
}
