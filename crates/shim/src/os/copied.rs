//! Whether this process is a copy of the one in which the library was started, by a fork(2) that it did not see: `_Fork`,
//! or a system call by number.
//!
//! A page of the library's own is wiped by the kernel in the copy (MADV_WIPEONFORK, Linux 4.14). A child of vfork(2), and
//! of clone(2) with CLONE_VM, has the memory itself and not a copy of it.

#[cfg(quell_preload)]
use core::sync::atomic::AtomicBool;
use core::sync::atomic::{AtomicU32, Ordering};

use super::{nr, syscall};
use crate::PAGE;
use crate::kernel::Errno;
use crate::linux::{MADV_WIPEONFORK, MAP_ANONYMOUS, MAP_PRIVATE, PROT_READ, PROT_WRITE};

/// Where the page is; null where there is none.
static PAGE_AT: core::sync::atomic::AtomicPtr<AtomicU32> =
    core::sync::atomic::AtomicPtr::new(core::ptr::null_mut());
/// What it begins with in the process that it was made in.
const ORIGINAL: u32 = 1;

/// Whether the library was asked for nothing yet.
#[cfg(quell_preload)]
pub(super) fn is_first_call() -> bool {
    static WAS_CALLED: AtomicBool = AtomicBool::new(false);
    !WAS_CALLED.load(Ordering::Relaxed) && !WAS_CALLED.swap(true, Ordering::Relaxed)
}

/// Makes the page.
#[cfg_attr(
    not(quell_preload),
    allow(dead_code, reason = "for the library itself")
)]
pub(super) fn notice() {
    let (prot, flags) = (PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
    let args = [0, PAGE, prot as usize, flags as usize, usize::MAX, 0];
    // SAFETY: a new mapping of our own.
    let Ok(at) = (unsafe { syscall(nr::MMAP, args) }) else {
        return;
    };
    let args = [at, PAGE, MADV_WIPEONFORK as usize, 0, 0, 0];
    // SAFETY: our own page; the kernel refuses it or not.
    if unsafe { syscall(nr::MADVISE, args) }.is_ok() {
        // SAFETY: it is mapped, aligned and zero.
        unsafe { &*(at as *const AtomicU32) }.store(ORIGINAL, Ordering::Relaxed);
        PAGE_AT.store(at as *mut AtomicU32, Ordering::Release);
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
