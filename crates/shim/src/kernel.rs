//! The calls that the library makes to the kernel, as a trait, so that its logic runs on a model in tests.

use crate::sync::AtomicU32;
use crate::{Part, Range};

/// An error number of Linux (errno(3)), positive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

impl Errno {
    /// Not permitted.
    pub const EPERM: Errno = Errno(1);
    /// No memory, or nothing mapped there.
    pub const ENOMEM: Errno = Errno(12);
    /// A bad address.
    pub const EFAULT: Errno = Errno(14);
    /// A bad argument.
    pub const EINVAL: Errno = Errno(22);
    /// Something is mapped there (MAP_FIXED_NOREPLACE).
    pub const EEXIST: Errno = Errno(17);
}

/// The arguments of mmap(2), as the program gave them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Map {
    /// Where, or where best.
    pub addr: usize,
    /// How much, in bytes.
    pub len: usize,
    /// `PROT_…`.
    pub prot: i32,
    /// `MAP_…`.
    pub flags: i32,
    /// The descriptor of the file.
    pub fd: i32,
    /// The offset in the file.
    pub offset: i64,
}

/// How full memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pressure {
    /// Nobody waits for memory, and so many bytes are left of the machine, or of the control group that has the least.
    None(usize),
    /// Tasks wait for memory, or the control group is close to its limit; or that can't be told.
    Some,
}

/// Whether pages of the process are pinned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pins {
    /// No page is.
    None,
    /// Some pages may be, for a while.
    PerhapsNow,
    /// Some may be, for as long as the program lives; or that can't be told.
    Perhaps,
}

/// One mapping, as the kernel describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The whole range of the mapping.
    pub range: Range,
    /// It is private, of no file, and can be read and written, and not executed.
    pub is_plain: bool,
}

/// Everything that the library needs to know of threads, and to wait for them.
pub trait Threads {
    /// A number that is this thread's alone while it lives, not 0. A child of vfork(2), and of clone(2) with the
    /// memory but no CLONE_SETTLS, has its parent's: it counts as a handler of the thread that made it.
    fn thread_id(&self) -> usize;
    /// Sleeps while `word` is `value`, at most so long (futex(2)). May return at any time.
    fn sleep_while(&self, word: &AtomicU32, value: u32, ms: u32);
    /// Wakes all that sleep on `word`.
    fn wake_all(&self, word: &AtomicU32);
    /// Wakes one of them.
    fn wake_one(&self, word: &AtomicU32) {
        self.wake_all(word);
    }
    /// Whether a thread of this number sleeps until something wakes it; false where that can't be told. Takes some tens of
    /// microseconds.
    fn is_asleep(&self, _thread: usize) -> bool {
        false
    }
    /// The reading of a clock that does not go back, ns.
    fn now_ns(&self) -> u64;
    /// The CPU time of this thread, ns: the price of a piece of work, also where the thread lost the CPU or slept
    /// meanwhile. Under a filter of system calls it is [`Threads::now_ns`].
    fn thread_cpu_ns(&self) -> u64 {
        self.now_ns()
    }
    /// The same for all threads of the process, and the time of others may be told up to a tick late. Under a filter of
    /// system calls it is [`Threads::now_ns`].
    fn process_cpu_ns(&self) -> u64 {
        self.now_ns()
    }
}

/// The kernel, or a model of it.
///
/// # Safety
///
/// An implementation keeps Linux's promise for each call: a range that it returns as mapped is mapped, and one that it
/// calls zero reads as zero.
#[allow(clippy::missing_errors_doc, clippy::missing_safety_doc)]
pub unsafe trait Kernel: Threads {
    /// mmap(2).
    unsafe fn mmap(&self, map: &Map) -> Result<usize, Errno>;
    /// munmap(2).
    unsafe fn munmap(&self, addr: usize, len: usize) -> Result<(), Errno>;
    /// mprotect(2).
    unsafe fn mprotect(&self, addr: usize, len: usize, prot: i32) -> Result<(), Errno>;
    /// madvise(2).
    unsafe fn madvise(&self, addr: usize, len: usize, advice: i32) -> Result<(), Errno>;
    /// mremap(2).
    unsafe fn mremap(
        &self,
        old: usize,
        old_len: usize,
        new_len: usize,
        flags: i32,
        new: usize,
    ) -> Result<usize, Errno>;
    /// Takes the name away that the range has in /proc/PID/maps (PR_SET_VMA(2const)).
    unsafe fn unname(&self, range: Range) -> Result<(), Errno>;
    /// process_madvise(2) of this process, by MADV_DONTNEED or MADV_FREE: how many bytes were done, from the first
    /// range on.
    unsafe fn advise_each(&self, ranges: &[Part], advice: i32) -> Result<usize, Errno>;
    /// Which pages are in memory (mincore(2)): the lowest bit of each byte of `pages`.
    unsafe fn mincore(&self, range: Range, pages: &mut [u8]) -> Result<(), Errno>;
    /// Writes zeros.
    unsafe fn zero(&self, range: Range);
    /// The one mapping that has all of a range. None where there are several or none, and where that can't be told.
    fn mapping_at(&self, range: Range) -> Option<Mapping>;
    /// How long that takes where it takes longer the more mappings there are, as last seen, ns; 0 where it does not.
    fn mapping_ns(&self) -> usize {
        0
    }
    /// Whether a range of plain memory is locked (mlock(2), mlockall(2)).
    fn is_locked(&self, _range: Range) -> bool {
        false
    }
    /// Whether each page of a range has memory, or is swapped out; none where that can't be told just now. So none of
    /// it was unmapped since it was written, and none is a guard page. A page that mincore(2) names may be one that the
    /// machine has found damaged all the same, and to touch that is SIGBUS.
    fn all_there(&self, range: Range) -> Option<bool>;
    /// Writes a word into each page by which it can be told later, see [`Kernel::clear_marked`].
    unsafe fn write_marks(&self, range: Range, mark: u64);
    /// Whether each page of a range still has the word that [`Kernel::write_marks`] wrote. Never faults.
    fn is_marked(&self, range: Range, mark: u64) -> bool;
    /// The same by plain reads, some ten times as fast: where a page can't be read, the program ends by SIGSEGV or SIGBUS.
    unsafe fn has_marks(&self, range: Range, mark: u64) -> bool;
    /// Makes each page zeros that has that word, up to the first that has not. How many bytes.
    unsafe fn clear_marked(&self, range: Range, mark: u64) -> usize;
    /// A number made of words of each page; never 0.
    unsafe fn fingerprint(&self, range: Range) -> u64;
    /// Whether a range still has this fingerprint. Never faults.
    fn has_fingerprint(&self, range: Range, fingerprint: u64) -> bool;
    /// Whether the kernel or a device has hold of pages of this process, so that it reads or writes them also when they
    /// are unmapped. Takes some tens of microseconds.
    fn pinned_pages(&self) -> Pins;
    /// Whether this process is the copy of one that it was started in, by a fork(2) that [`Kernel::fork_is_over`] was not
    /// told of.
    fn is_unseen_copy(&self) -> bool {
        false
    }
    /// Whether the program may be killed for a system call that only the library makes (seccomp(2)). Then nothing of memory can be
    /// told.
    fn is_filtered(&self) -> bool {
        false
    }
    /// Whether the kernel would make new mappings of this thread executable without being asked to (personality(2),
    /// READ_IMPLIES_EXEC), while earlier ones are not. True if it does not say.
    fn implies_exec(&self) -> bool {
        false
    }
    /// Makes all of it zeros. Where a sample of its pages has some that are already, it leaves all such as they are, and says
    /// how many; otherwise it writes all of them, and says 0.
    unsafe fn clear_used(&self, range: Range) -> usize;
    /// How many of these pages, of sixteen at most, have something else than zeros where they begin or in the middle; none where
    /// that can't be told. Never faults: pages may be gone.
    fn count_used(&self, pages: &[usize]) -> Option<usize>;
    /// How many of these pages have something else than zeros anywhere.
    unsafe fn count_not_zero(&self, pages: &[usize]) -> usize;
    /// Whether no page of a range is in memory or swapped out, nor has a mark in its place, as a guard page: all of it reads as
    /// zeros. False if not known. After [`Kernel::mincore`], which finds filters.
    fn has_nothing(&self, _range: Range) -> bool {
        false
    }
    /// Whether no other process shares a page of this range, as after fork(2); false if not known.
    fn is_own(&self, range: Range) -> bool;
    /// Whether a page of this range was only read, and has the page of zeros that all share; true if not known. After
    /// [`Kernel::mincore`], which finds filters.
    fn has_page_of_zeros(&self, range: Range) -> bool {
        !self.is_own(range)
    }
    /// A fork(2) begins, and is over, in the parent or the child.
    fn fork_begins(&self) {}
    /// See [`Kernel::fork_begins`].
    fn fork_is_over(&self, _child: bool) {}
    /// How much of the process is in memory, bytes; none if that can't be told.
    fn resident_bytes(&self) -> Option<usize> {
        None
    }
    /// How much may be mapped, in bytes, where that is counted whether anything is in it or not; none where it
    /// isn't. May change. Takes some microseconds.
    fn mapping_limit(&self) -> Option<usize> {
        None
    }
    /// How full memory is now; none where another thread is at that, or this one below a signal handler. Takes some tens of
    /// microseconds. After [`Kernel::is_filtered`] has said no: it opens files in any case.
    fn memory_pressure(&self) -> Option<Pressure>;
}
