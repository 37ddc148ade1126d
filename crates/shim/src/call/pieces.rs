//! mremap(2) of what is one mapping to the program and several to the kernel.
//!
//! What is served from the cache may have been two mappings once, which the kernel does not always make one
//! again. mremap(2) takes a part of one mapping only: across two it says EFAULT (`vma_to_resize` in
//! mm/mremap.c up to 6.16; 6.17 takes several where nothing is resized). Where the border lies is found by
//! halving, so nothing needs to be known of the range: attributes, content and all, each piece is moved as it is.

use crate::kernel::{Errno, Kernel, Map};
use crate::linux::*;
use crate::shim::Shim;
use crate::{PAGE, Range};

/// What is asked of [`Kernel::mincore`] at once, in pages.
const AT_ONCE: usize = 1024;

impl<K: Kernel> Shim<K> {
    /// Whether there is a mapping at each page, so that an EFAULT is about borders and not about holes.
    pub(super) fn is_all_mapped(&self, range: Range) -> bool {
        let mut pages = [0; AT_ONCE];
        (range.start..range.end)
            .step_by(AT_ONCE * PAGE)
            .all(|start| {
                let part = Range {
                    start,
                    end: range.end.min(start.saturating_add(AT_ONCE * PAGE)),
                };
                // SAFETY: a byte for each page of the part.
                let found = unsafe { self.kernel.mincore(part, &mut pages[..part.len() / PAGE]) };
                // Other errors say nothing of it, such as EAGAIN, where the kernel has no room for its answer.
                found != Err(Errno::ENOMEM)
            })
    }

    /// What mremap(2) would do if the range were one mapping.
    ///
    /// # Safety
    ///
    /// As mremap(2).
    ///
    /// # Errors
    ///
    /// Those of mremap(2) and mmap(2); the range is then where it was. Only where it can't be brought back,
    /// since the process may have no more mappings, what was moved before is lost.
    pub(super) unsafe fn remap_pieces(
        &self,
        from: Range,
        len: usize,
        flags: i32,
        target: usize,
    ) -> Result<usize, Errno> {
        let target = (flags & MREMAP_FIXED != 0).then_some(target);
        let stays = flags & MREMAP_DONTUNMAP;
        let mut why = Errno::ENOMEM;
        if target.is_none() && stays == 0 && len > from.len() {
            // Where it is, only its last mapping grows, which its last page stands for.
            let grown = len - from.len() + PAGE;
            // SAFETY: the caller's range, which is not moved.
            match unsafe { self.kernel.mremap(from.end - PAGE, PAGE, grown, 0, 0) } {
                Ok(_) => return Ok(from.start),
                Err(refused) => why = refused,
            }
        }
        if flags & MREMAP_MAYMOVE == 0 {
            return Err(why);
        }
        // SAFETY: the caller's.
        unsafe { self.move_in_pieces(from, len, target, stays) }
    }

    /// The same by moving it, to `target` or to where there is room.
    unsafe fn move_in_pieces(
        &self,
        from: Range,
        len: usize,
        target: Option<usize>,
        stays: i32,
    ) -> Result<usize, Errno> {
        let fixed = if target.is_some() { MAP_FIXED } else { 0 };
        // SAFETY: a new mapping, at the caller's target if there is one.
        let at = unsafe { self.reserve(target.unwrap_or(0), len, fixed) }?;
        // SAFETY: the caller's range, onto what is reserved.
        let why = match unsafe { self.move_each(from, at, len, stays) } {
            Ok(()) => return Ok(at),
            Err((0, why)) => why,
            Err((moved, why)) => {
                let back = Range {
                    start: at,
                    end: at + moved,
                };
                // SAFETY: what was just moved goes back to where it was, unless there is something by now.
                let _ = unsafe {
                    if stays == 0 {
                        self.reserve(from.start, moved, MAP_FIXED_NOREPLACE)
                    } else {
                        Ok(from.start)
                    }
                    .and_then(|start| {
                        self.move_each(back, start, moved, 0)
                            .map_err(|(_, why)| why)
                    })
                };
                why
            }
        };
        // SAFETY: what was reserved, and is not used.
        let _ = unsafe { self.kernel.munmap(at, len) };
        Err(why)
    }

    /// Addresses that nobody else gets, and that are overwritten piece by piece.
    unsafe fn reserve(&self, addr: usize, len: usize, fixed: i32) -> Result<usize, Errno> {
        let map = Map {
            addr,
            len,
            prot: PROT_NONE,
            flags: MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | fixed,
            fd: -1,
            offset: 0,
        };
        // SAFETY: the caller's.
        unsafe { self.map_anew(&map) }
    }

    /// Moves each piece. Or how many bytes were moved before the one that could not be, and why.
    ///
    /// It ends: each turn either moves at least a page or halves the piece, and one of a page that is refused
    /// is an error.
    unsafe fn move_each(
        &self,
        from: Range,
        at: usize,
        len: usize,
        stays: i32,
    ) -> Result<(), (usize, Errno)> {
        let flags = MREMAP_MAYMOVE | MREMAP_FIXED | stays;
        let whole = from.len().min(len);
        if whole < from.len() {
            // SAFETY: the end that is to go. What is kept of it is the table's.
            unsafe { self.kernel.munmap(from.start + whole, from.len() - whole) }
                .map_err(|why| (0, why))?;
        }
        let mut moved = 0;
        while moved < whole {
            let mut piece = whole - moved;
            loop {
                // The last one grows, if it is to.
                let last = moved + piece == whole;
                let new = if last { len - moved } else { piece };
                // SAFETY: a part of the caller's range, onto what is reserved.
                let call = || unsafe {
                    self.kernel
                        .mremap(from.start + moved, piece, new, flags, at + moved)
                };
                let mut done = call();
                if done == Err(Errno::ENOMEM) && self.drain() {
                    done = call();
                }
                match done {
                    Ok(_) => break,
                    Err(Errno::EFAULT) if piece > PAGE => {
                        piece = (piece / 2).next_multiple_of(PAGE);
                    }
                    Err(why) => return Err((moved, why)),
                }
            }
            moved += piece;
        }
        Ok(())
    }
}
