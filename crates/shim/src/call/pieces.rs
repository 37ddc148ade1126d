//! mremap(2) of a range that is one mapping to the program and several to the kernel.
//!
//! Memory that is served from the cache may have been two mappings once, which the kernel does not always make one
//! again. mremap(2) takes a part of one mapping only: across two it says EFAULT (`vma_to_resize` in mm/mremap.c up to
//! 6.16; 6.17 takes several where nothing is resized). The border is found by asking, so nothing needs to be known of
//! the range: attributes, content and all, each piece is moved as it is.

use crate::kernel::{Errno, Kernel, Map};
use crate::linux::*;
use crate::shim::Shim;
use crate::{PAGE, Range};

/// So many pages are asked of [`Kernel::mincore`] at once.
const MINCORE_PAGES: usize = 1024;

/// So many mappings are set aside while pieces are moved, and given up to move them back: the kernel refuses mremap(2)
/// where two more would come within three of the most that there may be (`mremap_to` in mm/mremap.c), and to reserve
/// addresses takes another.
const SPARE_MAPPINGS: usize = 8;

/// Longer than any mapping on x86-64 can become that does not begin at 0.
const LONGER_THAN_ANY: usize = (1 << 47) - 2 * PAGE;

/// To the program it is one mapping, and it has no mapping too many.
fn of_one(why: Errno) -> Errno {
    match why {
        Errno::EFAULT => Errno::ENOMEM,
        why => why,
    }
}

/// How far moving came.
struct StoppedMove {
    /// So many bytes were moved.
    moved: usize,
    /// From here on, counted from the target's first byte, the target is reserved still.
    reserved: usize,
    why: Errno,
}

impl StoppedMove {
    fn at_the_start(why: Errno) -> StoppedMove {
        StoppedMove {
            moved: 0,
            reserved: 0,
            why,
        }
    }
}

impl<K: Kernel> Shim<K> {
    /// Whether there is a mapping at each page, so that an EFAULT is about borders and not about holes.
    pub(super) fn is_all_mapped(&self, range: Range) -> bool {
        let mut pages = [0; MINCORE_PAGES];
        (range.start..range.end)
            .step_by(MINCORE_PAGES * PAGE)
            .all(|start| {
                let part = Range {
                    start,
                    end: range.end.min(start.saturating_add(MINCORE_PAGES * PAGE)),
                };
                // SAFETY: a byte for each page of the part.
                let found = unsafe { self.kernel.mincore(part, &mut pages[..part.len() / PAGE]) };
                // Other errors say nothing of it, such as EAGAIN, where the kernel has no room for its answer.
                found != Err(Errno::ENOMEM)
            })
    }

    /// Does as mremap(2) would if the range were one mapping.
    ///
    /// # Safety
    ///
    /// As mremap(2).
    ///
    /// # Errors
    ///
    /// Those of mremap(2) and mmap(2); the range is then where it was. Only where the kernel refuses to bring it back,
    /// too, the part that was moved before is lost: unmapped, or not to be used, or zeros where `MREMAP_DONTUNMAP`
    /// leaves a mapping. It refuses for lack of mappings only if other threads take those that were set aside
    /// ([`SPARE_MAPPINGS`]) by mapping meanwhile.
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
        let reserved = match target {
            // SAFETY: the caller's target, which he gives up.
            Some(target) => unsafe { self.reserve_addresses(target, len, MAP_FIXED) },
            // SAFETY: a new mapping.
            None => unsafe { self.reserve_addresses(0, len, 0) },
        };
        let at = match (reserved, target) {
            (Ok(at), _) => at,
            // The kernel knows best why not, such as that there are no such addresses.
            // SAFETY: the caller's own call, which is refused.
            (Err(_), Some(target)) => unsafe {
                let flags = MREMAP_MAYMOVE | MREMAP_FIXED | stays;
                return self
                    .kernel
                    .mremap(from.start, from.len(), len, flags, target)
                    .map_err(of_one);
            },
            (Err(why), None) => return Err(why),
        };
        // SAFETY: new mappings; then the caller's range, onto the reserved addresses; and the mappings are given up.
        let moved = unsafe {
            self.map_spares().and_then(|spare| {
                let moved = self.move_each(from, at, len, stays);
                let _ = self.kernel.munmap(spare.start, spare.len());
                moved
            })
        };
        let stuck = match moved {
            Ok(()) => return Ok(at),
            Err(stuck) => stuck,
        };
        if stuck.moved > 0 {
            let back = Range::of_len(at, stuck.moved);
            // SAFETY: the part that was just moved goes back to where it was, unless there is something by now.
            let _ = unsafe {
                if stays == 0 {
                    self.reserve_addresses(from.start, stuck.moved, MAP_FIXED_NOREPLACE)
                } else {
                    Ok(from.start)
                }
                .and_then(|start| {
                    self.move_each(back, start, stuck.moved, 0)
                        .map_err(|again| {
                            if stays == 0 && again.reserved < stuck.moved {
                                let rest = stuck.moved - again.reserved;
                                let _ = self.kernel.munmap(start + again.reserved, rest);
                            }
                            again.why
                        })
                })
            };
        }
        if stuck.reserved < len {
            // SAFETY: the addresses that are reserved still. Not those before: a piece that left from there, or failed
            // to come, left a hole, which may be another thread's mapping by now.
            let _ = unsafe {
                self.kernel
                    .munmap(at + stuck.reserved, len - stuck.reserved)
            };
        }
        Err(of_one(stuck.why))
    }

    /// Mappings that are there to be given up. Only once the target is reserved: they may lie anywhere.
    unsafe fn map_spares(&self) -> Result<Range, StoppedMove> {
        let len = SPARE_MAPPINGS * PAGE;
        // SAFETY: a new mapping, of which each other page becomes one of its own. Without all of them it is undone.
        unsafe {
            let start = self
                .reserve_addresses(0, len, 0)
                .map_err(StoppedMove::at_the_start)?;
            let mut each = (1..SPARE_MAPPINGS).step_by(2).map(|n| start + n * PAGE);
            let all = each.try_for_each(|page| self.kernel.mprotect(page, PAGE, PROT_READ));
            if let Err(why) = all {
                let _ = self.kernel.munmap(start, len);
                return Err(StoppedMove::at_the_start(why));
            }
            let end = start + len;
            Ok(Range { start, end })
        }
    }

    /// Addresses that nobody else gets, and that are overwritten piece by piece.
    unsafe fn reserve_addresses(
        &self,
        addr: usize,
        len: usize,
        fixed: i32,
    ) -> Result<usize, Errno> {
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

    /// Moves each piece, or says how far it came.
    ///
    /// It ends: each turn moves at least a page or is the last.
    unsafe fn move_each(
        &self,
        from: Range,
        at: usize,
        len: usize,
        stays: i32,
    ) -> Result<(), StoppedMove> {
        let flags = MREMAP_MAYMOVE | MREMAP_FIXED | stays;
        let whole = from.len().min(len);
        if whole < from.len() {
            // SAFETY: the end that is to go. Kept memory of it is the table's.
            unsafe { self.kernel.munmap(from.start + whole, from.len() - whole) }
                .map_err(StoppedMove::at_the_start)?;
        }
        let mut moved = 0;
        while moved < whole {
            let piece = self.one_mapping(from.start + moved, whole - moved);
            // The last one grows, if it is to.
            let last = moved + piece == whole;
            let new = if last { len - moved } else { piece };
            // SAFETY: a part of the caller's range, onto the reserved addresses.
            unsafe {
                self.kernel
                    .mremap(from.start + moved, piece, new, flags, at + moved)
            }
            // Up to 6.16 the target is unmapped first (`mremap_to` in mm/mremap.c). To try again could hit another
            // thread's mapping.
            .map_err(|why| StoppedMove {
                moved,
                reserved: moved + new,
                why,
            })?;
            moved += piece;
        }
        Ok(())
    }

    /// How much from `at` on, of `len` bytes, is one mapping to the kernel, or a part of it: half of it, half of that,
    /// and so on, or a page.
    pub(super) fn one_mapping(&self, at: usize, len: usize) -> usize {
        // Memory that may never grow, such as a device's, is refused so too. There nothing can be told.
        if self.is_one_mapping(at, len) || !self.is_one_mapping(at, PAGE) {
            return len;
        }
        let mut piece = len;
        while piece > PAGE && !self.is_one_mapping(at, piece) {
            piece = (piece / 2).next_multiple_of(PAGE);
        }
        piece
    }

    /// Whether so many bytes from `at` on are one mapping to the kernel, or a part of one. It is asked to let them
    /// grow where they are, without leave to move, so far that nothing can: it is refused in any case, and with EFAULT
    /// if it is not one mapping, which is looked at first (`vma_to_resize`, and `check_prep_vma` from 6.17 on, in
    /// mm/mremap.c). Up to 6.16 it is counted as promised memory first, and taken back: under
    /// vm.overcommit_memory=2 another process may be refused memory at that moment.
    fn is_one_mapping(&self, at: usize, len: usize) -> bool {
        // SAFETY: it changes nothing.
        match unsafe { self.kernel.mremap(at, len, LONGER_THAN_ANY, 0, 0) } {
            Err(refused) => refused != Errno::EFAULT,
            // With five levels of page tables there may be so much room where a program asks for high addresses.
            Ok(_) => {
                // SAFETY: the pages that have just grown there.
                let _ = unsafe { self.kernel.munmap(at + len, LONGER_THAN_ANY - len) };
                true
            }
        }
    }
}
