//! mremap(2): shrunk by unmapping, otherwise the kernel's.

use crate::Range;
use crate::kernel::{Errno, Kernel};
use crate::linux::*;
use crate::shim::{Locked, Shim};

/// Whether the kernel has nothing against the arguments of a call to a fixed target: only then may another call stand for it,
/// which does not check them again.
fn is_good(from: Range, to: Range, flags: i32, new: usize) -> bool {
    let target = Range::from_addr_len(new, to.len());
    flags & !(MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP) == 0
        && flags & MREMAP_MAYMOVE != 0
        && (flags & MREMAP_DONTUNMAP == 0 || from.len() == to.len())
        && target.is_some_and(|target| target.intersection(from).is_none())
}

impl<K: Kernel> Shim<K> {
    /// mremap(2).
    ///
    /// # Safety
    ///
    /// As mremap(2).
    ///
    /// # Errors
    ///
    /// Those of mremap(2).
    pub unsafe fn mremap(
        &self,
        old: usize,
        old_len: usize,
        new_len: usize,
        flags: i32,
        new: usize,
    ) -> Result<usize, Errno> {
        if self.is_off() {
            return match (
                Range::from_addr_len(old, old_len),
                Range::from_addr_len(old, new_len),
            ) {
                // Memory that was served before may be several mappings, and stays one to the program.
                // SAFETY: the caller's own call.
                (Some(from), Some(to)) if !self.settings().off => unsafe {
                    self.remap_as_one(from, to, flags, new)
                },
                // SAFETY: the caller's own call.
                _ => unsafe { self.kernel.mremap(old, old_len, new_len, flags, new) },
            };
        }
        // SAFETY: the caller's own call.
        let remap = || unsafe { self.remap_unobstructed(old, old_len, new_len, flags, new) };
        match Range::from_addr_len(new, new_len) {
            Some(target) if flags & MREMAP_FIXED != 0 => self.replace_range(target, remap),
            _ => remap(),
        }
    }

    /// The same once nothing is in the way of a fixed target.
    unsafe fn remap_unobstructed(
        &self,
        old: usize,
        old_len: usize,
        new_len: usize,
        flags: i32,
        new: usize,
    ) -> Result<usize, Errno> {
        let to_fixed = flags & MREMAP_FIXED != 0;
        let (Some(from), Some(to)) = (
            Range::from_addr_len(old, old_len),
            Range::from_addr_len(old, new_len),
        ) else {
            // A second mapping of shared memory, where there is no old length.
            // SAFETY: the caller's own call.
            let at = unsafe { self.kernel.mremap(old, old_len, new_len, flags, new) }?;
            self.forget_new(at, new_len);
            return Ok(at);
        };
        let plain = flags & !(MREMAP_MAYMOVE | MREMAP_FIXED) == 0;
        let known = match self.locked(|table| table.kind_of(from)) {
            Locked::Done(kind) => kind,
            Locked::Mine | Locked::Busy => None,
        };
        let kind = known.filter(|_| plain);
        // Under a filter the end is not kept, and the program may have forbidden itself to unmap it by itself.
        if kind.is_some() && !to_fixed && to.end < from.end && !self.kernel.is_filtered() {
            // SAFETY: to shrink is to unmap the end.
            unsafe { self.munmap(to.end, from.end - to.end) }?;
            return Ok(old);
        }
        let whole = Range {
            start: from.start,
            end: from.end.max(to.end),
        };
        // SAFETY: the caller's own call.
        let result = self.keep_others_away(whole, || unsafe {
            self.clear_the_way(from)?;
            // Also the addresses behind it, so that it can grow where it is. If not, it may move.
            if to.end > from.end {
                let behind = Range {
                    start: from.end,
                    end: to.end,
                };
                let free = self
                    .wait_for_others(behind)
                    .and_then(|()| self.unmap_kept_in(behind));
                if flags & MREMAP_MAYMOVE == 0 {
                    free?;
                }
            }
            self.remap_as_one(from, to, flags, new)
        });
        if let Ok(at) = result {
            let now = Range::of_len(at, to.len());
            self.note_mapped(now, |table| match kind {
                Some(kind) if !self.is_retired() => table.note_live(now, kind),
                _ => {
                    table.note_mapped_anew(now);
                }
            });
        }
        result
    }

    /// The kernel's call, for a range that may be several mappings.
    ///
    /// # Safety
    ///
    /// As mremap(2).
    ///
    /// # Errors
    ///
    /// Those of mremap(2).
    unsafe fn remap_as_one(
        &self,
        from: Range,
        to: Range,
        flags: i32,
        new: usize,
    ) -> Result<usize, Errno> {
        let (at, len, new_len) = (from.start, from.len(), to.len());
        // SAFETY: the caller's own call.
        let call = || unsafe { self.kernel.mremap(at, len, new_len, flags, new) };
        // Up to 6.16 the kernel unmaps the target before it refuses, and another thread may be given it meanwhile.
        let in_pieces = flags & MREMAP_FIXED != 0
            && is_good(from, to, flags, new)
            && self.is_all_mapped(from)
            && self.one_mapping(from.start, from.len()) < from.len();
        let mut result = if in_pieces {
            Err(Errno::EFAULT)
        } else {
            self.with_room(call)
        };
        if result == Err(Errno::EFAULT) && self.is_all_mapped(from) {
            // SAFETY: the caller's own range, and his target if there is one.
            result = unsafe { self.remap_pieces(from, to.len(), flags, new) };
        }
        result
    }
}
