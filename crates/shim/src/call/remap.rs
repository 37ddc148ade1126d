//! mremap(2): shrunk by unmapping, otherwise the kernel's.

use crate::Range;
use crate::kernel::{Errno, Kernel, Map};
use crate::linux::*;
use crate::region::Kind;
use crate::shim::{Locked, Shim};

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
        // SAFETY: the caller's own call.
        let call = || unsafe { self.kernel.mremap(old, old_len, new_len, flags, new) };
        if self.is_off() {
            return call();
        }
        let to_fixed = flags & MREMAP_FIXED != 0;
        if to_fixed && let Some(target) = Range::of(new, new_len) {
            self.evict(target)?;
            self.forget(target);
        }
        let (Some(from), Some(to)) = (Range::of(old, old_len), Range::of(old, new_len)) else {
            return call();
        };
        let plain = flags & !(MREMAP_MAYMOVE | MREMAP_FIXED) == 0;
        let known = match self.locked(|table| table.kind_of(from)) {
            Locked::Done(kind) => kind,
            Locked::Mine | Locked::Busy => None,
        };
        let kind = known.filter(|_| plain);
        if kind.is_some() && !to_fixed && to.end <= from.end {
            if to.end < from.end {
                // SAFETY: to shrink is to unmap the end.
                unsafe { self.munmap(to.end, from.end - to.end) }?;
            }
            return Ok(old);
        }
        // Also what is kept behind it, so that it can grow where it is.
        self.evict(Range {
            start: from.start,
            end: from.end.max(to.end),
        })?;
        self.forget(from);
        let mut result = call();
        if result == Err(Errno::ENOMEM) && self.drain() {
            result = call();
        }
        let mut kind = kind;
        if let (Err(Errno::EFAULT), Some(known)) = (result, known) {
            // It lies in two mappings of the kernel's, which is our doing.
            if flags & MREMAP_MAYMOVE == 0 {
                // It can't grow where it is, which nobody was promised.
                return Err(Errno::ENOMEM);
            }
            let target = to_fixed.then_some(new);
            let stays = flags & MREMAP_DONTUNMAP != 0;
            // SAFETY: the caller's own range, which is known and the program's.
            result = unsafe { self.move_by_hand(from, to.len(), known, target, stays) };
            kind = kind.map(|kind| Kind {
                huge: false,
                ..kind
            });
        }
        if let Ok(at) = result {
            let now = Range {
                start: at,
                end: at + to.len(),
            };
            let _ = self.locked(|table| match kind {
                Some(kind) if !self.is_retired() => table.note(now, kind),
                _ => {
                    table.forget(now, true);
                }
            });
        }
        result
    }

    /// Moves a region as mremap(2) would, by a new mapping, at `target` if there is one. With `stays` the old
    /// one stays, without its content.
    unsafe fn move_by_hand(
        &self,
        from: Range,
        len: usize,
        kind: Kind,
        target: Option<usize>,
        stays: bool,
    ) -> Result<usize, Errno> {
        let noreserve = if kind.noreserve { MAP_NORESERVE } else { 0 };
        let fixed = if target.is_some() { MAP_FIXED } else { 0 };
        let map = Map {
            addr: target.unwrap_or(0),
            len,
            prot: PROT_READ | PROT_WRITE,
            flags: MAP_PRIVATE | MAP_ANONYMOUS | noreserve | fixed,
            fd: -1,
            offset: 0,
        };
        let prot = i32::from(kind.prot);
        // SAFETY: a new mapping, and the old one, which is the program's and moves. What is not readable is
        // made so first; nobody may use it while it moves.
        unsafe {
            let at = self.map_anew(&map)?;
            let moved = || {
                if prot & PROT_READ == 0 {
                    self.kernel.mprotect(from.start, from.len(), PROT_READ)?;
                }
                self.kernel.copy(from.start, at, from.len().min(len));
                if prot != PROT_READ | PROT_WRITE {
                    self.kernel.mprotect(at, len, prot)?;
                }
                if stays {
                    self.kernel.mprotect(from.start, from.len(), prot)?;
                    self.kernel.madvise(from.start, from.len(), MADV_DONTNEED)
                } else {
                    self.kernel.munmap(from.start, from.len())
                }
            };
            if let Err(why) = moved() {
                let _ = self.kernel.munmap(at, len);
                return Err(why);
            }
            Ok(at)
        }
    }
}
