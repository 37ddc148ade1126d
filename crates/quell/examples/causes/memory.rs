//! Memory that the generators play with, and the calls that can't fail here.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsRawFd as _, FromRawFd as _};
use std::ptr;

pub(crate) const PAGE: usize = 4096;
/// Bytes of each range: few enough that flushes stay ranged.
pub(crate) const SIZE: usize = 8 * PAGE;
pub(crate) const HUGE: usize = 2 << 20;

/// madvise(2), Linux 6.1, 6.13 and 2.6.32; libc has not all of them.
pub(crate) const MADV_COLLAPSE: i32 = 25;
pub(crate) const MADV_GUARD_INSTALL: i32 = 102;
pub(crate) const MADV_GUARD_REMOVE: i32 = 103;

pub(crate) fn pin(cpu: usize) {
    // SAFETY: a zeroed cpu_set_t is an empty one; the call reads it only.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &set);
    }
}

pub(crate) fn check(what: &str, ret: i32) {
    assert_eq!(ret, 0, "{what}: {}", std::io::Error::last_os_error());
}

/// Maps `size` bytes with these flags; of `file` if there is one.
pub(crate) fn map_with(size: usize, flags: i32, file: Option<&File>) -> *mut u8 {
    let fd = file.map_or(-1, |f| f.as_raw_fd());
    let prot = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the kernel chooses a free address.
    let p = unsafe { libc::mmap(ptr::null_mut(), size, prot, flags, fd, 0) };
    let failed = p == libc::MAP_FAILED;
    assert!(!failed, "mmap: {}", std::io::Error::last_os_error());
    p.cast()
}

/// Maps `size` bytes; of `file` if there is one, and then shared.
pub(crate) fn map(size: usize, file: Option<&File>) -> *mut u8 {
    let flags = match file {
        Some(_) => libc::MAP_SHARED,
        None => libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
    };
    map_with(size, flags, file)
}

/// The first huge page that fits into a mapping of twice its size.
pub(crate) fn aligned(p: *mut u8) -> *mut u8 {
    p.wrapping_add(p.align_offset(HUGE))
}

pub(crate) fn touch(p: *mut u8, size: usize, value: u8) {
    for at in (0..size).step_by(PAGE) {
        // SAFETY: every caller mapped so many bytes, readable and writable.
        unsafe { p.add(at).write_volatile(value) };
    }
}

pub(crate) fn touch_read(p: *const u8, size: usize) {
    for at in (0..size).step_by(PAGE) {
        // SAFETY: the caller mapped so many bytes.
        unsafe { p.add(at).read_volatile() };
    }
}

pub(crate) fn unmap(p: *mut u8, size: usize) {
    // SAFETY: mapped by `map`, and not used afterwards.
    check("munmap", unsafe { libc::munmap(p.cast(), size) });
}

pub(crate) fn advise(p: *mut u8, size: usize, advice: i32) {
    // A collapse may find no huge page or no lock for the moment: EAGAIN (madvise(2)).
    for _ in 0..1000 {
        // SAFETY: the range is this program's own, and it expects the pages to change.
        let ret = unsafe { libc::madvise(p.cast(), size, advice) };
        let err = std::io::Error::last_os_error();
        if ret == 0 || err.kind() != std::io::ErrorKind::WouldBlock {
            return check("madvise", ret);
        }
        std::thread::yield_now();
    }
    panic!("madvise: EAGAIN, a thousand times");
}

/// A file on disk without a name.
pub(crate) fn file(size: usize) -> File {
    let mut f = tempfile::tempfile_in(".").expect("a temporary file");
    f.write_all(&vec![1; size]).expect("write");
    f
}

pub(crate) fn memfd(size: usize) -> File {
    // SAFETY: the name is a C string; the descriptor that comes back is nobody else's.
    let f = unsafe {
        let fd = libc::memfd_create(c"causes".as_ptr(), 0);
        assert!(fd >= 0, "memfd_create: {}", std::io::Error::last_os_error());
        File::from_raw_fd(fd)
    };
    f.set_len(size as u64).expect("ftruncate");
    f
}
