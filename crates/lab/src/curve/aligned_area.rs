//! Memory that begins at a multiple of a huge page, so that all of it can be huge pages.

use std::fs;
use std::io;

use rustix::mm::{self, MapFlags};

use crate::memory::{HUGE_PAGE_BYTES, LabMapping, PAGE_BYTES};

/// A private anonymous mapping with nothing of its own beside it, unmapped when dropped.
#[derive(Debug)]
pub(super) struct AlignedArea {
    at: *mut u8,
    bytes: usize,
}

// SAFETY: an address and a length are as good in one thread as in another; the memory there is only touched by volatile accesses.
unsafe impl Send for AlignedArea {}

impl AlignedArea {
    /// Maps so many bytes, rounded up to pages, with huge pages or without any, whatever the system's default is.
    pub(super) fn new(bytes: usize, huge: bool) -> io::Result<Self> {
        let bytes = bytes.max(1).next_multiple_of(PAGE_BYTES);
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        let (at, mapped) = LabMapping::map_with_flags(bytes + HUGE_PAGE_BYTES, flags)?.into_raw();
        let before = at.align_offset(HUGE_PAGE_BYTES);
        // SAFETY: `before` is below HUGE_PAGE_BYTES, so all three lie within the new mapping, which nobody else knows of: first
        // the part before the area, then the part behind it. A length of 0 is refused, which does no harm.
        let at = unsafe {
            let _ = mm::munmap(at.cast(), before);
            let at = at.add(before);
            let _ = mm::munmap(at.add(bytes).cast(), mapped - before - bytes);
            at
        };
        let area = Self { at, bytes };
        let advice = if huge {
            libc::MADV_HUGEPAGE
        } else {
            libc::MADV_NOHUGEPAGE
        };
        // EINVAL means that the kernel has no huge pages: then they are small, and a caller that needs huge ones checks for them.
        let _ = area.advise(0, bytes, advice);
        Ok(area)
    }

    /// The address of its first byte.
    pub(super) fn start(&self) -> *mut u8 {
        self.at
    }

    /// Its length in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Advises the kernel about so many bytes of it from an offset on.
    pub(super) fn advise(&self, offset: usize, bytes: usize, advice: i32) -> io::Result<()> {
        let bytes = bytes.min(self.bytes.saturating_sub(offset));
        // SAFETY: within the area, which is this value's own; advice changes at most the contents of its pages.
        let ret = unsafe { libc::madvise(self.at.wrapping_add(offset).cast(), bytes, advice) };
        if ret == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }

    /// Gives it all its pages: by one call where the kernel has it (5.14), or by touching them.
    pub(super) fn fill_pages(&self) {
        if self
            .advise(0, self.bytes, libc::MADV_POPULATE_WRITE)
            .is_ok()
        {
            return;
        }
        for offset in (0..self.bytes).step_by(PAGE_BYTES) {
            // SAFETY: within the area.
            unsafe { self.at.add(offset).write_volatile(1) };
        }
    }

    /// Unmaps it, and returns the kernel's error if there is one.
    pub(super) fn unmap(self) -> io::Result<()> {
        // SAFETY: the area is this value's own, and gone with it.
        let done = unsafe { mm::munmap(self.at.cast(), self.bytes) };
        std::mem::forget(self);
        Ok(done?)
    }
}

impl Drop for AlignedArea {
    fn drop(&mut self) {
        // SAFETY: the area is this value's own, and no reference into it is kept.
        let _ = unsafe { mm::munmap(self.at.cast(), self.bytes) };
    }
}

/// Why this process can't have huge pages, if it can't: found out by taking one.
pub(super) fn no_huge_pages() -> Option<String> {
    let area = match AlignedArea::new(HUGE_PAGE_BYTES, true) {
        Ok(area) => area,
        Err(err) => return Some(err.to_string()),
    };
    area.fill_pages();
    let rollup = fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    let has = |line: &str| {
        let kb = line.strip_prefix("AnonHugePages:").unwrap_or_default();
        !matches!(kb.trim().trim_end_matches("kB").trim(), "" | "0")
    };
    (!rollup.lines().any(has)).then(|| {
        "the kernel gave no huge page (/sys/kernel/mm/transparent_hugepage/enabled)".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that an area begins at a multiple of a huge page, can be written to its end and given back.
    #[test]
    fn areas_are_aligned() {
        for bytes in [
            1,
            PAGE_BYTES,
            HUGE_PAGE_BYTES,
            3 * HUGE_PAGE_BYTES + PAGE_BYTES,
        ] {
            let area = AlignedArea::new(bytes, false).unwrap();
            assert_eq!(area.start().align_offset(HUGE_PAGE_BYTES), 0);
            assert!(area.bytes() >= bytes && area.bytes().is_multiple_of(PAGE_BYTES));
            area.fill_pages();
            // SAFETY: its last byte.
            unsafe { area.start().add(area.bytes() - 1).write_volatile(7) };
            area.advise(0, area.bytes(), libc::MADV_DONTNEED).unwrap();
            // SAFETY: the same byte.
            let byte = unsafe { area.start().add(area.bytes() - 1).read_volatile() };
            assert_eq!(byte, 0);
            area.unmap().unwrap();
        }
    }
}
