//! Blocks from the process's own malloc: glibc's, or that of a preloaded allocator.

use crate::memory::PAGE_BYTES;

/// A block from malloc, freed when dropped.
pub(crate) struct MallocBlock(*mut libc::c_void);

impl MallocBlock {
    /// A block of so many bytes with a byte written in every page; none where malloc has none.
    pub(crate) fn new(bytes: usize) -> Option<Self> {
        // SAFETY: any size may be asked for; null is looked at.
        let at = unsafe { libc::malloc(bytes) };
        if at.is_null() {
            return None;
        }
        for offset in (0..bytes).step_by(PAGE_BYTES) {
            // SAFETY: within the block, which nobody else knows.
            unsafe { at.cast::<u8>().add(offset).write_volatile(1) };
        }
        Some(Self(at))
    }
}

// SAFETY: a block may be freed by another thread than has allocated it (malloc(3), MT-Safe).
unsafe impl Send for MallocBlock {}

impl Drop for MallocBlock {
    fn drop(&mut self) {
        // SAFETY: it is malloc's, and freed once.
        unsafe { libc::free(self.0) };
    }
}
