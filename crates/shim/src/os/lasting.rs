//! A descriptor of a file of /proc that stays open: to open and close it takes ten times as long as to ask.

use core::sync::atomic::{AtomicUsize, Ordering};

use super::file::File;
use super::{nr, syscall};
use crate::kernel::Errno;

/// So that no program finds its own descriptors changed; and below the 64 that each process has room for: to make room for
/// more the kernel waits until no thread looks at the old table (expand_fdtable, fs/file.c, Linux 6.18), which took 13 ms.
/// Where the limit of descriptors is too low there is none.
const LEAST_NUMBER: usize = 48;

const EBADF: i32 = 9;
/// It is another file, or the kernel has no such query.
pub(super) const ENOTTY: i32 = 25;

/// A program may close it, or put another file in its place: then it is refused, forgotten, and not closed, as it is not
/// ours any more. So it is only for what other files refuse, as ioctl(2).
pub(super) struct Lasting {
    file: File<'static>,
    /// 0 is none.
    number: AtomicUsize,
}

impl Lasting {
    pub(super) const fn of(file: File<'static>) -> Self {
        Lasting {
            file,
            number: AtomicUsize::new(0),
        }
    }

    /// What the file says, by an ioctl(2) of this descriptor. None where it can't be opened.
    pub(super) fn ask<T>(
        &self,
        query: impl Fn(usize) -> Result<T, Errno>,
    ) -> Option<Result<T, Errno>> {
        let order = Ordering::Relaxed;
        let known = self.number.load(order);
        if known != 0 {
            let said = query(known);
            if !matches!(said, Err(Errno(EBADF | ENOTTY))) {
                return Some(said);
            }
            let _ = self.number.compare_exchange(known, 0, order, order);
        }
        self.file.with(|fd| {
            let said = query(fd);
            if !matches!(said, Err(Errno(EBADF | ENOTTY))) && self.number.load(order) == 0 {
                self.keep(fd);
            }
            said
        })
    }

    /// A copy of the process has the descriptor too, and it tells of the process that it was opened in.
    pub(super) fn forget(&self) {
        self.number.store(0, Ordering::Relaxed);
    }

    fn keep(&self, fd: usize) {
        const F_DUPFD_CLOEXEC: usize = 1030;
        // SAFETY: another descriptor of our own file.
        let made = unsafe { syscall(nr::FCNTL, [fd, F_DUPFD_CLOEXEC, LEAST_NUMBER, 0, 0, 0]) };
        let Ok(number) = made else {
            return;
        };
        let order = Ordering::Relaxed;
        let first = self.number.compare_exchange(0, number, order, order);
        if first.is_err() {
            // SAFETY: made just now, and known to nobody.
            let _ = unsafe { syscall(nr::CLOSE, [number, 0, 0, 0, 0, 0]) };
        }
    }
}
