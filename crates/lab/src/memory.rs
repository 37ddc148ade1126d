//! Mappings of the lab's own memory, unmapped when dropped.

use std::io;
use std::ptr::NonNull;

use rustix::mm::{self, MapFlags, ProtFlags};

/// The size of a page.
pub const PAGE_BYTES: usize = 4096;

/// The size of a huge page.
pub const HUGE_PAGE_BYTES: usize = 2 << 20;

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

    /// The same, with these flags.
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

    /// Maps so much of a file, shared and writable.
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
        // SAFETY: within the mapping; advice changes at most the contents of its pages, and nobody relies on those.
        let ret = unsafe { libc::madvise(self.start().cast(), bytes.min(self.bytes), advice) };
        if ret == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }

    /// The same about one page of it.
    ///
    /// # Errors
    ///
    /// The kernel's; or that it has no such page.
    pub fn advise_page(&self, at: usize, advice: i32) -> io::Result<()> {
        if at >= self.bytes || !at.is_multiple_of(PAGE_BYTES) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // SAFETY: a page within the mapping; advice changes at most its contents, and nobody relies on those.
        let ret = unsafe { libc::madvise(self.start().add(at).cast(), PAGE_BYTES, advice) };
        if ret == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }

    /// Changes the rights to its first so many bytes.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn set_writable(&self, bytes: usize, writable: bool) -> io::Result<()> {
        let prot = if writable {
            libc::PROT_READ | libc::PROT_WRITE
        } else {
            libc::PROT_READ
        };
        self.change_rights(bytes, prot)
    }

    /// Takes all rights to its first so many bytes away.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn forbid_access(&self, bytes: usize) -> io::Result<()> {
        self.change_rights(bytes, libc::PROT_NONE)
    }

    fn change_rights(&self, bytes: usize, prot: i32) -> io::Result<()> {
        // SAFETY: within the mapping; nobody touches it but the culprit that protects it.
        let ret = unsafe { libc::mprotect(self.start().cast(), bytes.min(self.bytes), prot) };
        if ret == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }

    /// Leaves the mapping in place: the caller unmaps it by other means.
    #[must_use]
    pub fn into_raw(self) -> (*mut u8, usize) {
        let raw = (self.start(), self.bytes);
        std::mem::forget(self);
        raw
    }
}

impl Drop for LabMapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped here with this length, and no reference into it is kept.
        let _ = unsafe { mm::munmap(self.start().cast(), self.bytes) };
    }
}
