//! A descriptor of a file of /proc that stays open: to open and close it takes ten times as long as to ask.

use core::sync::atomic::{AtomicUsize, Ordering};

use super::file::File;
use super::unseen_copy;
use super::{nr, syscall};
use crate::kernel::Errno;

/// Above those that most programs use, and below the 64 that each process has room for: to make room for more the kernel waits
/// until no thread looks at the old table (expand_fdtable, fs/file.c, Linux 6.18), which took 13 ms.
const LEAST_NUMBER: usize = 48;
/// Where a process may have fewer, the program may need them all, and none stays open.
const LEAST_LIMIT: u64 = 512;

const EBADF: i32 = 9;
/// It is another file, or the kernel has no such query.
pub(super) const ENOTTY: i32 = 25;

/// A program may close it, or put another file in its place, perhaps the same one of another process: then it is
/// forgotten, and not closed, as it is not ours any more. So its identity is looked at each time.
pub(super) struct KeptOpenFile {
    file: File<'static>,
    /// 0 is none.
    number: AtomicUsize,
    /// The number of its file. Another that is open has it only if the kernel has gone through all 32 bits of them meanwhile.
    inode: AtomicUsize,
    system: AtomicUsize,
}

impl KeptOpenFile {
    pub(super) const fn for_file(file: File<'static>) -> Self {
        KeptOpenFile {
            file,
            number: AtomicUsize::new(0),
            inode: AtomicUsize::new(0),
            system: AtomicUsize::new(0),
        }
    }

    /// The file's answer to an ioctl(2) of this descriptor. None where it can't be opened.
    pub(super) fn ask_file<T>(
        &self,
        query: impl Fn(usize) -> Result<T, Errno>,
    ) -> Option<Result<T, Errno>> {
        let order = Ordering::Relaxed;
        let known = self.number.load(Ordering::Acquire);
        if known != 0 && self.is_ours(known) {
            let said = query(known);
            if !matches!(said, Err(Errno(EBADF | ENOTTY))) {
                return Some(said);
            }
        }
        // Its descriptors may be others than those of the process whose memory it has.
        let is_guest = unseen_copy::is_guest();
        if known != 0 && !is_guest {
            let _ = self.number.compare_exchange(known, 0, order, order);
        }
        self.file.with_open(|fd| {
            let said = query(fd);
            let works = !matches!(said, Err(Errno(EBADF | ENOTTY)));
            if works && !is_guest && self.number.load(order) == 0 {
                self.keep_descriptor(fd);
            }
            said
        })
    }

    /// A copy of the process has the descriptor too, and it tells of the process that it was opened in. It is
    /// closed where that may be, and otherwise left open. Most processes that fork have none, and then nobody asks whether it
    /// may.
    pub(super) fn forget_descriptor(&self, may_close: impl Fn() -> bool) {
        if self.number.load(Ordering::Relaxed) == 0 {
            return;
        }
        let known = self.number.swap(0, Ordering::Relaxed);
        if known != 0 && may_close() && self.is_ours(known) {
            // SAFETY: it is ours. Where the copy has not a table of descriptors of its own, the other opens it anew.
            let _ = unsafe { syscall(nr::CLOSE, [known, 0, 0, 0, 0, 0]) };
        }
    }

    /// Whether a descriptor is of the file that was kept, and not of another that the program has put there.
    fn is_ours(&self, number: usize) -> bool {
        let order = Ordering::Relaxed;
        file_identity(number) == Some([self.system.load(order), self.inode.load(order)])
    }

    /// Keeps a copy of an open descriptor of the file, with a number from [`LEAST_NUMBER`] on. Where that can't be, the file is
    /// opened anew each time.
    fn keep_descriptor(&self, fd: usize) {
        const F_DUPFD_CLOEXEC: usize = 1030;
        if !has_room() {
            return;
        }
        let Some([system, inode]) = file_identity(fd) else {
            return;
        };
        // SAFETY: another descriptor of our own file.
        let made = unsafe { syscall(nr::FCNTL, [fd, F_DUPFD_CLOEXEC, LEAST_NUMBER, 0, 0, 0]) };
        let Ok(number) = made else {
            return;
        };
        // Two threads that are at it have opened the same file.
        self.system.store(system, Ordering::Relaxed);
        self.inode.store(inode, Ordering::Relaxed);
        let order = (Ordering::Release, Ordering::Relaxed);
        let first = self.number.compare_exchange(0, number, order.0, order.1);
        if first.is_err() {
            // SAFETY: made just now, and known to nobody.
            let _ = unsafe { syscall(nr::CLOSE, [number, 0, 0, 0, 0, 0]) };
        }
    }
}

/// The file system and the number of a file in it, if the descriptor is one.
fn file_identity(fd: usize) -> Option<[usize; 2]> {
    // `struct stat` has both first, and is of 144 bytes on x86-64.
    let mut stat = [0_usize; 18];
    let args = [fd, stat.as_mut_ptr() as usize, 0, 0, 0, 0];
    // SAFETY: the kernel writes into our own place, which is large enough.
    unsafe { syscall(nr::FSTAT, args) }.ok()?;
    Some([stat[0], stat[1]])
}

/// Whether the program may open that many files.
fn has_room() -> bool {
    const RLIMIT_NOFILE: usize = 7;
    let mut limits = [0_u64; 2];
    let args = [0, RLIMIT_NOFILE, 0, limits.as_mut_ptr() as usize, 0, 0];
    // SAFETY: the kernel writes both limits into our own place.
    let asked = unsafe { syscall(nr::PRLIMIT64, args) };
    asked.is_ok() && limits[0] >= LEAST_LIMIT
}
