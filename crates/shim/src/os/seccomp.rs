//! Whether the process is under a filter of seccomp(2), which may kill for a call that only the library makes: then it
//! makes none but those of the program's, and those that its lock needs.

use core::sync::atomic::{AtomicU8, Ordering};

use super::file::File;
use super::{nr, syscall};

#[derive(Default)]
pub(super) struct SeccompState(AtomicU8);

const NOT_ASKED: u8 = 0;
const FILTER_FOUND: u8 = 1;
const FILTER_NOT_FOUND: u8 = 2;

impl SeccompState {
    pub(super) const fn new() -> SeccompState {
        SeccompState(AtomicU8::new(NOT_ASKED))
    }

    /// Asked once, when it first matters: most programs end before that, and /proc takes longer than all else that
    /// the library does at the start. A program that sets up one later says so ([`SeccompState::note_new_filter`]), or
    /// is asked about ([`SeccompState::has_come`]).
    pub(super) fn is_there(&self) -> bool {
        match self.0.load(Ordering::Relaxed) {
            NOT_ASKED => self.ask_kernel(),
            known => known != FILTER_NOT_FOUND,
        }
    }

    /// The same, and asks whether the program has set up one past the library, as the Go parts of a program do, whose system calls
    /// are their own. Takes as long as the shortest system call. A filter that kills for prctl(2) too ends the program here.
    /// That can't be helped: any question could be the one that it kills for.
    pub(super) fn has_come(&self) -> bool {
        const PR_GET_SECCOMP: usize = 21;
        const MODE_DISABLED: usize = 0;
        if self.is_there() {
            return true;
        }
        // SAFETY: it only asks.
        let mode = unsafe { syscall(nr::PRCTL, [PR_GET_SECCOMP, 0, 0, 0, 0, 0]) };
        // Where it is refused, there is one that refuses it: a kernel without filters has no such line in /proc.
        let has_come = mode != Ok(MODE_DISABLED);
        if has_come {
            self.note_new_filter();
        }
        has_come
    }

    /// Whether one is known to be there, and not only taken for granted.
    #[cfg(quell_preload)]
    pub(super) fn is_known(&self) -> bool {
        self.is_there() && self.0.load(Ordering::Relaxed) == FILTER_FOUND
    }

    /// The program sets one up.
    pub(super) fn note_new_filter(&self) {
        self.0.store(FILTER_FOUND, Ordering::Relaxed);
    }

    /// It is a function by itself, so that its part of the stack is free again: that may be a signal handler's.
    #[cold]
    #[inline(never)]
    fn ask_kernel(&self) -> bool {
        let mode = |line: &[u8]| Some(line.strip_prefix(b"Seccomp:\t")? == b"2");
        let Some(there) = File::named(b"/proc/self/status\0").find_line(mode) else {
            // Without /proc, as in some sandboxes, it is taken for granted; and while a thread forks, when nothing is
            // read, until then.
            return true;
        };
        let known = if there {
            FILTER_FOUND
        } else {
            FILTER_NOT_FOUND
        };
        // Unless one has come meanwhile.
        let order = Ordering::Relaxed;
        let _ = self.0.compare_exchange(NOT_ASKED, known, order, order);
        there
    }
}
