//! Whether this process is a copy of the one in which the library was started, by a fork(2) that it did not see: `_Fork`,
//! or a system call by number.
//!
//! A page of the library's own is wiped by the kernel in the copy (MADV_WIPEONFORK, Linux 4.14). A child of vfork(2), and
//! of clone(2) with CLONE_VM, has the memory itself and not a copy of it.

use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use super::{nr, syscall};
#[cfg(quell_preload)]
use crate::PAGE;
use crate::kernel::Errno;
#[cfg(quell_preload)]
use crate::linux::{MADV_WIPEONFORK, MAP_ANONYMOUS, MAP_PRIVATE, PROT_READ, PROT_WRITE};

/// Where the page is; null where there is none.
static PAGE_AT: AtomicPtr<AtomicU32> = AtomicPtr::new(core::ptr::null_mut());
/// What it begins with in the process that it was made in.
const ORIGINAL: u32 = 1;

/// The page while it is not known yet whether the kernel may be asked to wipe it.
#[cfg(quell_preload)]
static MAPPED: AtomicPtr<AtomicU32> = AtomicPtr::new(core::ptr::null_mut());

/// Maps the page. At the start, so that it lies among the libraries: beside a mapping of the program's it would take the room of an
/// anchor.
#[cfg(quell_preload)]
pub(super) fn map_page() {
    let (prot, flags) = (PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
    let args = [0, PAGE, prot as usize, flags as usize, usize::MAX, 0];
    // SAFETY: a new mapping of our own.
    if let Ok(at) = unsafe { syscall(nr::MMAP, args) } {
        MAPPED.store(at as *mut AtomicU32, Ordering::Release);
    }
}

/// The page, for the one who is to ask the kernel to wipe it, if nobody was yet.
#[cfg(quell_preload)]
pub(super) fn take_page() -> Option<&'static AtomicU32> {
    if MAPPED.load(Ordering::Relaxed).is_null() {
        return None;
    }
    // SAFETY: null, or the page, which is never unmapped.
    unsafe {
        MAPPED
            .swap(core::ptr::null_mut(), Ordering::Acquire)
            .as_ref()
    }
}

/// Has the kernel wipe the page in copies.
#[cfg(quell_preload)]
pub(super) fn notice(page: &'static AtomicU32) {
    let at = core::ptr::from_ref(page);
    let args = [at as usize, PAGE, MADV_WIPEONFORK as usize, 0, 0, 0];
    // SAFETY: our own page; the kernel refuses it or not.
    if unsafe { syscall(nr::MADVISE, args) }.is_ok() {
        page.store(ORIGINAL, Ordering::Relaxed);
        PAGE_AT.store(at.cast_mut(), Ordering::Release);
    }
}

fn word() -> Option<&'static AtomicU32> {
    // SAFETY: null, or the page, which is never unmapped.
    unsafe { PAGE_AT.load(Ordering::Acquire).as_ref() }
}

/// Whether this is such a copy.
pub(super) fn is_unseen() -> bool {
    word().is_some_and(|word| word.load(Ordering::Relaxed) != ORIGINAL)
}

/// The number of this process: it is in the page too, so that a copy has none there.
pub(super) fn process() -> Result<usize, Errno> {
    let known = word().map(|word| {
        // SAFETY: the page has room for both.
        unsafe { &*core::ptr::from_ref(word).add(1) }
    });
    if let Some(known) = known
        && known.load(Ordering::Relaxed) != 0
    {
        return Ok(known.load(Ordering::Relaxed) as usize);
    }
    // SAFETY: getpid(2).
    let asked = unsafe { syscall(nr::GETPID, [0; 6]) }?;
    if let Some(known) = known {
        known.store(asked as u32, Ordering::Relaxed);
    }
    Ok(asked)
}

/// Whether this is a child of vfork(2), or such: another process, with this one's memory.
pub(super) fn is_guest() -> bool {
    // SAFETY: getpid(2).
    let asked = unsafe { syscall(nr::GETPID, [0; 6]) };
    asked != process()
}

/// It is a copy, and the library was told.
pub(super) fn is_seen() {
    if let Some(word) = word() {
        word.store(ORIGINAL, Ordering::Relaxed);
    }
}

/// What [`process`] says is not so: it was first asked in a child of vfork(2), which has this process's memory, and is gone.
pub(super) fn is_another() {
    if let Some(word) = word() {
        // SAFETY: as in `process`.
        unsafe { &*core::ptr::from_ref(word).add(1) }.store(0, Ordering::Relaxed);
    }
}
