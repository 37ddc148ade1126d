//! Memory and files for the rest.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsRawFd as _, FromRawFd as _};
use std::path::PathBuf;
use std::ptr;

use crate::absent;

pub(crate) const PAGE: usize = 4096;
pub(crate) const MIB: usize = 1 << 20;

pub(crate) fn map(bytes: usize, flags: i32, file: Option<&File>) -> *mut u8 {
    let (kind, fd) = match file {
        Some(file) => (0, file.as_raw_fd()),
        None => (libc::MAP_ANONYMOUS, -1),
    };
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping, where the kernel likes.
    let p = unsafe { libc::mmap(ptr::null_mut(), bytes, protection, flags | kind, fd, 0) };
    assert!(
        p != libc::MAP_FAILED,
        "mmap: {}",
        std::io::Error::last_os_error()
    );
    p.cast()
}

pub(crate) fn private(bytes: usize) -> *mut u8 {
    let p = map(bytes, libc::MAP_PRIVATE, None);
    advise(p, bytes, libc::MADV_NOHUGEPAGE);
    p
}

pub(crate) fn unmap(p: *mut u8, bytes: usize) {
    // SAFETY: a mapping of this program's that nobody uses any more.
    unsafe { libc::munmap(p.cast(), bytes) };
}

pub(crate) fn advise(p: *mut u8, bytes: usize, advice: i32) -> bool {
    // SAFETY: a mapping of this program's whose contents nobody needs.
    unsafe { libc::madvise(p.cast(), bytes, advice) == 0 }
}

#[inline(always)]
pub(crate) fn write_each(p: *mut u8, bytes: usize, step: usize) {
    for at in (0..bytes).step_by(step) {
        // SAFETY: within the mapping.
        unsafe { p.add(at).write_volatile(1) };
    }
}

#[inline(always)]
pub(crate) fn read_each(p: *const u8, bytes: usize, step: usize) {
    for at in (0..bytes).step_by(step) {
        // SAFETY: within the mapping.
        unsafe { p.add(at).read_volatile() };
    }
}

pub(crate) fn memfd(bytes: usize) -> File {
    // SAFETY: a new file without a name; nobody else has its descriptor.
    let file = unsafe {
        let fd = libc::memfd_create(c"spends".as_ptr(), libc::MFD_CLOEXEC);
        assert!(fd >= 0, "memfd_create: {}", std::io::Error::last_os_error());
        File::from_raw_fd(fd)
    };
    file.set_len(bytes as u64).expect("room in memory");
    file
}

/// Where files are to be made.
pub(crate) fn folder() -> PathBuf {
    let folder = std::env::var_os("QUELL_TEST_DISK");
    folder.map_or_else(|| "/var/tmp".into(), PathBuf::from)
}

/// A nameless file on a disk, of so many bytes, all written.
pub(crate) fn on_disk(bytes: usize) -> File {
    let path = folder().join(format!("spends.{}", std::process::id()));
    let mut options = File::options();
    let opened = options.read(true).write(true).create_new(true).open(&path);
    let Ok(mut file) = opened else {
        absent("no folder for a file")
    };
    let _ = std::fs::remove_file(&path);
    // SAFETY: the kernel fills it.
    let kind = unsafe {
        let mut told: libc::statfs = std::mem::zeroed();
        libc::fstatfs(file.as_raw_fd(), &raw mut told);
        told.f_type
    };
    const RAMFS: i64 = 0x8584_58f6;
    if kind == RAMFS || kind == libc::TMPFS_MAGIC {
        absent("no disk: the folder is in memory");
    }
    let piece = vec![1_u8; MIB];
    for _ in 0..bytes / MIB {
        file.write_all(&piece).expect("room on the disk");
    }
    file.sync_all().expect("the disk takes it");
    file
}
