//! brk: malloc grows and shrinks the heap by it. To shrink it is a munmap of its end (mm/mmap.c: brk()), so one flush; to grow it
//! flushes nothing.

use std::io;

use super::{Culprit, DEFAULT_MECHANISM, MAX_GATHERED_PAGES, StallMechanism, pages_param};
use crate::memory::PAGE_BYTES;

pub(super) const BRK_MECHANISM: StallMechanism = StallMechanism {
    name: "brk",
    about: "the heap's end moved up, written to, and moved back: what malloc does where it trims",
    params: &[pages_param(16, 1 << 18)],
    expects: |params| (params.get("pages") <= MAX_GATHERED_PAGES).then_some(1.0),
    prepare: |params| {
        leave_the_heap_alone();
        Ok(Box::new(Brk {
            bytes: params.size("pages") * PAGE_BYTES,
            end: move_heap_end(0)?,
        }))
    },
    ..DEFAULT_MECHANISM
};

struct Brk {
    bytes: usize,
    end: usize,
}

/// Moves the heap's end, and returns it: the old end, if the kernel refuses (brk(2), the system call).
fn move_heap_end(end: usize) -> io::Result<usize> {
    // SAFETY: 0 moves nothing; others are only asked to go to where the heap ended, and beyond that and back, and
    // nobody else moves it meanwhile, see `leave_the_heap_alone`.
    let now = unsafe { libc::syscall(libc::SYS_brk, end) };
    usize::try_from(now).map_err(io::Error::other)
}

/// Has malloc neither grow nor shrink the heap from here on. It would not notice that the end was moved, and would hand out
/// memory that is taken away again. Of the two threads of a worker the culprit allocates nothing during an operation; the
/// victim's has an arena of its own, but may free memory that the culprit's allocated, which trims the heap, or use the heap
/// where arenas are limited (mallopt(3), M_ARENA_MAX). So malloc never trims, and has more left than both will ever ask for.
fn leave_the_heap_alone() {
    #[cfg(target_env = "gnu")]
    {
        const SPARE_HEAP_BYTES: i32 = 16 << 20;
        // Less than the size that malloc maps on its own (M_MMAP_THRESHOLD, 128 KiB).
        const MALLOC_CHUNK_BYTES: usize = 64 << 10;
        // SAFETY: mallopt takes any numbers; each chunk is freed once, and nothing else is done with it.
        unsafe {
            libc::mallopt(libc::M_TRIM_THRESHOLD, -1);
            libc::mallopt(libc::M_TOP_PAD, SPARE_HEAP_BYTES);
            let before = libc::syscall(libc::SYS_brk, 0);
            let mut chunks = Vec::new();
            // Ends when the heap was grown once, by that much more than was asked for.
            while libc::syscall(libc::SYS_brk, 0) == before && chunks.len() < 64 {
                chunks.push(libc::malloc(MALLOC_CHUNK_BYTES));
            }
            for chunk in chunks {
                libc::free(chunk);
            }
        }
    }
}

impl Culprit for Brk {
    fn prepare_operation(&mut self) -> io::Result<()> {
        self.end = move_heap_end(0)?;
        Ok(())
    }

    fn run_operation(&mut self) -> io::Result<()> {
        let new = self.end.next_multiple_of(PAGE_BYTES) + self.bytes;
        if move_heap_end(new)? != new {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        for at in (self.end.next_multiple_of(PAGE_BYTES)..new).step_by(PAGE_BYTES) {
            // SAFETY: between the heap's old end and its new one, which nobody but us knows.
            unsafe { std::ptr::with_exposed_provenance_mut::<u8>(at).write_volatile(1) };
        }
        move_heap_end(self.end).map(drop)
    }
}
