//! Whether this process is a copy of the one in which the library was started, by a fork(2) that it did not see: `_Fork`,
//! or a system call by number.
//!
//! A page of the library's own is wiped by the kernel in the copy (MADV_WIPEONFORK, Linux 4.14). A child of vfork(2), and
//! of clone(2) with CLONE_VM, has the memory itself and not a copy of it.
//!
//! It lies among the library's variables, of which the kernel makes anonymous memory. A mapping of its own would be one
//! that nobody can tell from the program's: in the way of its anchors, and taken away by whoever unmaps or protects
//! mappings that he doesn't know.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::{nr, syscall};
use crate::PAGE;
use crate::kernel::Errno;
#[cfg(quell_preload)]
use crate::linux::MADV_WIPEONFORK;

const WORDS_PER_PAGE: usize = PAGE / size_of::<AtomicU32>();
/// A page with nothing beside it.
#[repr(align(4096))]
struct WipedPage([AtomicU32; WORDS_PER_PAGE]);

const _: () = assert!(align_of::<WipedPage>() == PAGE && size_of::<WipedPage>() == PAGE);

/// It begins with [`ORIGINAL_WORD`] and the number of the process, where the kernel wipes it in copies.
static WIPED_PAGE: WipedPage = WipedPage([const { AtomicU32::new(0) }; WORDS_PER_PAGE]);
static IS_WIPED: AtomicBool = AtomicBool::new(false);
const ORIGINAL_WORD: u32 = 1;

/// Whether the library was asked for nothing yet: true once.
#[cfg(quell_preload)]
pub(super) fn is_first_call() -> bool {
    static ASKED: AtomicBool = AtomicBool::new(false);
    // Hardly ever is there anything to write, and each call asks.
    !ASKED.load(Ordering::Relaxed) && !ASKED.swap(true, Ordering::Relaxed)
}

/// Has the kernel wipe the page in copies.
#[cfg(quell_preload)]
pub(super) fn watch_for_copies() {
    let args = [
        (&raw const WIPED_PAGE).addr(),
        PAGE,
        MADV_WIPEONFORK as usize,
        0,
        0,
        0,
    ];
    // SAFETY: our own page; the kernel refuses it or not.
    if unsafe { syscall(nr::MADVISE, args) }.is_ok() {
        WIPED_PAGE.0[0].store(ORIGINAL_WORD, Ordering::Relaxed);
        IS_WIPED.store(true, Ordering::Release);
    }
}

fn wiped_words() -> Option<&'static [AtomicU32; WORDS_PER_PAGE]> {
    IS_WIPED.load(Ordering::Acquire).then_some(&WIPED_PAGE.0)
}

/// Whether this is such a copy.
pub(super) fn is_unseen() -> bool {
    wiped_words().is_some_and(|words| words[0].load(Ordering::Relaxed) != ORIGINAL_WORD)
}

/// The number of this process: it is in the page too, so that a copy has none there.
pub(super) fn process_id() -> Result<usize, Errno> {
    let known = wiped_words().map(|words| &words[1]);
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
    asked != process_id()
}

/// Notes that this process is a copy, and that the library was told.
pub(super) fn is_seen() {
    if let Some(words) = wiped_words() {
        words[0].store(ORIGINAL_WORD, Ordering::Relaxed);
    }
}

/// Has [`process_id`] ask again: the number that it gives is of no process. It was first asked in a child of vfork(2), which
/// has this process's memory, and is gone.
pub(super) fn is_another() {
    if let Some(words) = wiped_words() {
        words[1].store(0, Ordering::Relaxed);
    }
}
