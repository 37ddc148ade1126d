//! Mappings of the lab's own memory, unmapped when dropped.

use std::io;
use std::ptr::NonNull;

use rustix::mm::{self, MapFlags, MprotectFlags, ProtFlags};

use crate::os_result::os_result;

/// The size of a page.
pub const PAGE_BYTES: usize = 4096;

/// The size of a huge page.
pub const HUGE_PAGE_BYTES: usize = 2 << 20;

/// The advice for memory with huge pages, or without any. madvise(2) says EINVAL where the kernel has no huge pages: then the pages are small.
pub(crate) fn huge_page_advice(huge: bool) -> i32 {
    if huge {
        libc::MADV_HUGEPAGE
    } else {
        libc::MADV_NOHUGEPAGE
    }
}

/// Has the kernel make no huge page in this process from now on, or make them again (prctl(2)). Present ones stay.
pub(crate) fn set_huge_pages_off(off: bool) -> io::Result<()> {
    // SAFETY: numbers only.
    os_result(unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, libc::c_ulong::from(off), 0, 0, 0) })
}

/// A private anonymous mapping.
#[derive(Debug)]
pub struct LabMapping {
    at: NonNull<u8>,
    bytes: usize,
}

// SAFETY: an address and a length are as good in one thread as in another; the memory of a mapping is only touched by volatile
// accesses to bytes.
unsafe impl Send for LabMapping {}

impl LabMapping {
    /// Maps so many bytes, rounded up to pages, readable and writable.
    ///
    /// # Errors
    ///
    /// If the kernel has no room.
    pub fn anonymous(bytes: usize) -> io::Result<Self> {
        Self::map_with_flags(bytes, MapFlags::PRIVATE | MapFlags::NORESERVE)
    }

    /// The same, at a multiple of `align`, which huge pages need.
    ///
    /// # Errors
    ///
    /// If the kernel has no room.
    pub fn aligned(bytes: usize, align: usize) -> io::Result<Self> {
        let whole = Self::anonymous(bytes + align)?;
        let bytes = bytes.max(1).next_multiple_of(PAGE_BYTES);
        let (start, length) = whole.into_raw();
        let head = start.align_offset(align);
        let tail = length.saturating_sub(head + bytes);
        // SAFETY: both ends are of the mapping that was made just now, which nobody else knows; a length of 0 is
        // not asked for.
        unsafe {
            if head > 0 {
                mm::munmap(start.cast(), head)?;
            }
            if tail > 0 {
                mm::munmap(start.add(head + bytes).cast(), tail)?;
            }
            Self::from_raw(start.add(head), bytes)
        }
    }

    /// Maps so many bytes at a multiple of a huge page, with huge pages or without any, whatever the system's default is.
    pub(crate) fn with_huge_pages(bytes: usize, huge: bool) -> io::Result<Self> {
        let mapping = Self::aligned(bytes, HUGE_PAGE_BYTES)?;
        // Whoever needs huge pages checks for them.
        let _ = mapping.advise(mapping.bytes, huge_page_advice(huge));
        Ok(mapping)
    }

    /// Maps so many bytes of small pages, all of them written.
    pub(crate) fn small_pages(bytes: usize) -> io::Result<Self> {
        let mapping = Self::anonymous(bytes)?;
        let _ = mapping.advise(mapping.bytes, huge_page_advice(false));
        mapping.touch_pages();
        Ok(mapping)
    }

    /// Maps so many bytes, rounded up to pages, with these flags.
    ///
    /// # Errors
    ///
    /// If the kernel has no room.
    pub fn map_with_flags(bytes: usize, flags: MapFlags) -> io::Result<Self> {
        let bytes = bytes.max(1).next_multiple_of(PAGE_BYTES);
        // SAFETY: the kernel chooses the place, so nothing else is replaced.
        let at = unsafe {
            mm::mmap_anonymous(
                std::ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                flags,
            )?
        };
        Self::from_raw(at.cast(), bytes)
    }

    /// Maps the first bytes of a file, shared and writable. Nothing is rounded up, and the file must be as long: beyond its last page a touch is
    /// SIGBUS (mmap(2)).
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn map_file(file: &std::fs::File, bytes: usize) -> io::Result<Self> {
        // SAFETY: the kernel chooses the place, so nothing else is replaced.
        let at = unsafe {
            mm::mmap(
                std::ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                file,
                0,
            )?
        };
        Self::from_raw(at.cast(), bytes)
    }

    fn from_raw(at: *mut u8, bytes: usize) -> io::Result<Self> {
        let at = NonNull::new(at).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { at, bytes })
    }

    /// Where it begins.
    #[must_use]
    pub fn start(&self) -> *mut u8 {
        self.at.as_ptr()
    }

    /// Its length in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Writes a byte into every page of it.
    pub fn touch_pages(&self) {
        self.touch_first_pages(self.bytes);
    }

    /// Writes a byte into every page of its first so many bytes.
    pub fn touch_first_pages(&self, bytes: usize) {
        for offset in (0..bytes.min(self.bytes)).step_by(PAGE_BYTES) {
            // SAFETY: within the mapping, which lives as long as this.
            unsafe { self.start().add(offset).write_volatile(1) };
        }
    }

    /// Advises the kernel about its first so many bytes, with a number of madvise(2), for rustix does not have all of them.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn advise(&self, bytes: usize, advice: i32) -> io::Result<()> {
        self.advise_range(0, bytes, advice)
    }

    /// The same about so many bytes from an offset on, as far as the mapping goes.
    pub(crate) fn advise_range(&self, offset: usize, bytes: usize, advice: i32) -> io::Result<()> {
        let bytes = bytes.min(self.bytes.saturating_sub(offset));
        let at = self.start().wrapping_add(offset);
        // SAFETY: within the mapping; advice changes at most the contents of its pages, and nobody relies on those.
        os_result(unsafe { libc::madvise(at.cast(), bytes, advice) })
    }

    /// Gives it all its pages: by one call where the kernel has it (5.14), or by touching them.
    pub(crate) fn fill_pages(&self) {
        if self.advise(self.bytes, libc::MADV_POPULATE_WRITE).is_err() {
            self.touch_pages();
        }
    }

    /// Changes the rights to its first so many bytes.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn set_writable(&self, bytes: usize, writable: bool) -> io::Result<()> {
        let mut rights = MprotectFlags::READ;
        rights.set(MprotectFlags::WRITE, writable);
        self.change_rights(bytes, rights)
    }

    /// Takes all rights to its first so many bytes away.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn forbid_access(&self, bytes: usize) -> io::Result<()> {
        self.change_rights(bytes, MprotectFlags::empty())
    }

    fn change_rights(&self, bytes: usize, rights: MprotectFlags) -> io::Result<()> {
        // SAFETY: within the mapping; nobody touches it but the culprit that protects it.
        Ok(unsafe { mm::mprotect(self.start().cast(), bytes.min(self.bytes), rights) }?)
    }

    /// Leaves the mapping in place: the caller unmaps it by other means.
    #[must_use]
    pub fn into_raw(self) -> (*mut u8, usize) {
        let raw = (self.start(), self.bytes);
        std::mem::forget(self);
        raw
    }

    /// Unmaps it, and returns the kernel's error if there is one.
    pub(crate) fn unmap(self) -> io::Result<()> {
        let (at, bytes) = self.into_raw();
        // SAFETY: it was mapped here with this length, and is gone with this value.
        Ok(unsafe { mm::munmap(at.cast(), bytes) }?)
    }
}

impl Drop for LabMapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped here with this length, and no reference into it is kept.
        let _ = unsafe { mm::munmap(self.start().cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that a mapping for huge pages begins at a multiple of one, can be written to its end and given back.
    #[test]
    fn areas_are_aligned() {
        for bytes in [
            1,
            PAGE_BYTES,
            HUGE_PAGE_BYTES,
            3 * HUGE_PAGE_BYTES + PAGE_BYTES,
        ] {
            let area = LabMapping::with_huge_pages(bytes, false).unwrap();
            assert_eq!(area.start().align_offset(HUGE_PAGE_BYTES), 0);
            assert!(area.bytes() >= bytes && area.bytes().is_multiple_of(PAGE_BYTES));
            area.fill_pages();
            // SAFETY: its last byte.
            unsafe { area.start().add(area.bytes() - 1).write_volatile(7) };
            area.advise(area.bytes(), libc::MADV_DONTNEED).unwrap();
            // SAFETY: the same byte.
            let byte = unsafe { area.start().add(area.bytes() - 1).read_volatile() };
            assert_eq!(byte, 0);
            area.unmap().unwrap();
        }
    }
}
