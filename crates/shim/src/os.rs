//! The real kernel: raw system calls, since libc's functions are those that we take the place of.

use core::arch::asm;
use core::cell::LazyCell;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use self::file::{File, leading_number};
use self::open_files::OPEN_FILES;
use self::pressure::PressureGauge;
use self::seccomp::SeccompState;
use crate::kernel::{Errno, Kernel, Map, Mapping, Pins, Pressure, Threads};
use crate::{PAGE, Part, Range};

mod cgroup;
mod file;
mod kept_open;
mod mapping_limit;
mod maps;
mod open_files;
mod pagemap;
mod pins;
mod pressure;
mod seccomp;
mod thread_state;
mod unseen_copy;

/// Numbers of system calls (arch/x86/entry/syscalls/syscall_64.tbl, Linux 6.18).
#[cfg_attr(
    not(quell_preload),
    allow(dead_code, reason = "some are only called for programs")
)]
pub(crate) mod nr {
    pub(crate) const READ: usize = 0;
    pub(crate) const WRITE: usize = 1;
    pub(crate) const CLOSE: usize = 3;
    pub(crate) const FSTAT: usize = 5;
    pub(crate) const MMAP: usize = 9;
    pub(crate) const MPROTECT: usize = 10;
    pub(crate) const MUNMAP: usize = 11;
    pub(crate) const IOCTL: usize = 16;
    pub(crate) const PREAD64: usize = 17;
    pub(crate) const MREMAP: usize = 25;
    pub(crate) const MSYNC: usize = 26;
    pub(crate) const MINCORE: usize = 27;
    pub(crate) const MADVISE: usize = 28;
    pub(crate) const SHMAT: usize = 30;
    pub(crate) const SHMCTL: usize = 31;
    pub(crate) const GETPID: usize = 39;
    pub(crate) const SETSOCKOPT: usize = 54;
    pub(crate) const GETSOCKOPT: usize = 55;
    pub(crate) const KILL: usize = 62;
    pub(crate) const FCNTL: usize = 72;
    pub(crate) const PERSONALITY: usize = 135;
    pub(crate) const MLOCK: usize = 149;
    pub(crate) const MLOCKALL: usize = 151;
    pub(crate) const PRCTL: usize = 157;
    pub(crate) const SETRLIMIT: usize = 160;
    pub(crate) const GETTID: usize = 186;
    pub(crate) const FUTEX: usize = 202;
    pub(crate) const IO_SETUP: usize = 206;
    pub(crate) const REMAP_FILE_PAGES: usize = 216;
    pub(crate) const GETDENTS64: usize = 217;
    pub(crate) const CLOCK_GETTIME: usize = 228;
    pub(crate) const EXIT_GROUP: usize = 231;
    pub(crate) const MBIND: usize = 237;
    pub(crate) const SET_MEMPOLICY: usize = 238;
    pub(crate) const OPENAT: usize = 257;
    pub(crate) const READLINKAT: usize = 267;
    pub(crate) const VMSPLICE: usize = 278;
    pub(crate) const PRLIMIT64: usize = 302;
    pub(crate) const PROCESS_VM_READV: usize = 310;
    pub(crate) const SECCOMP: usize = 317;
    pub(crate) const USERFAULTFD: usize = 323;
    pub(crate) const MLOCK2: usize = 325;
    pub(crate) const PKEY_MPROTECT: usize = 329;
    pub(crate) const IO_URING_SETUP: usize = 425;
    pub(crate) const IO_URING_REGISTER: usize = 427;
    pub(crate) const PROCESS_MADVISE: usize = 440;
    pub(crate) const SET_MEMPOLICY_HOME_NODE: usize = 450;
    pub(crate) const MSEAL: usize = 462;
}

const PIDFD_SELF_PROCESS: isize = -10001;
const FUTEX_WAIT_PRIVATE: usize = 128;
const FUTEX_WAKE_PRIVATE: usize = 129;
const CLOCK_MONOTONIC: usize = 1;
const CLOCK_PROCESS_CPUTIME_ID: usize = 2;
const CLOCK_THREAD_CPUTIME_ID: usize = 3;
const PR_SET_VMA: usize = 0x5356_4d41;
const PR_SET_VMA_ANON_NAME: usize = 0;
const AT_FDCWD: isize = -100;
const O_CLOEXEC: usize = 0o2_000_000;

/// Any system call.
///
/// # Safety
///
/// The caller wants that call's effect on the process.
#[inline]
pub(crate) unsafe fn syscall(number: usize, args: [usize; 6]) -> Result<usize, Errno> {
    let result: isize;
    // SAFETY: the kernel's own convention for x86-64: it changes rax, rcx and r11 only, and memory as
    // the call says.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") args[0], in("rsi") args[1], in("rdx") args[2],
            in("r10") args[3], in("r8") args[4], in("r9") args[5],
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    // The last page of addresses is errors.
    if (-4095..0).contains(&result) {
        Err(Errno(-result as i32))
    } else {
        Ok(result as usize)
    }
}

/// Linux, by system calls.
pub struct Linux {
    /// Calls with which a piece of work begins ask the kernel anew ([`SeccompState::has_come`]); those that follow go by what is
    /// known ([`SeccompState::is_there`]).
    filter: SeccompState,
    pressed: PressureGauge,
}

impl Linux {
    /// Asks nothing of the kernel yet.
    #[must_use]
    pub const fn new() -> Self {
        Linux {
            filter: SeccompState::new(),
            pressed: PressureGauge::new(),
        }
    }

    /// Prepares to notice that this process is a copy that nobody has told it of, at the first call: a process may be under a filter
    /// from its start on that kills for madvise(2), and makes no such call itself.
    #[cfg(quell_preload)]
    #[cold]
    #[inline(never)]
    fn notice_copies(&self) {
        if !self.filter.is_known() {
            unseen_copy::watch_for_copies();
        }
    }

    /// The program sets up a filter of system calls.
    #[cfg(quell_preload)]
    pub(crate) fn filter_comes(&self) {
        self.filter.note_new_filter();
    }

    /// The content of a program's `struct iovec`; none where there is no memory. Not under a filter.
    #[cfg(quell_preload)]
    pub(crate) fn part_at(&self, at: usize) -> Option<Part> {
        let mut words = [0_usize; 2];
        let len = size_of_val(&words);
        if copy_readable(&mut words, &[[at, len]]) != len {
            return None;
        }
        Some(Part {
            start: words[0],
            len: words[1],
        })
    }
}

/// Copies bytes from addresses, each with a length, and stops without a signal where nothing is mapped. Returns the
/// number of bytes.
fn copy_readable<T: Copy>(to: &mut [T], from: &[[usize; 2]]) -> usize {
    let local = [to.as_mut_ptr() as usize, size_of_val(to)];
    // SAFETY: the kernel writes into our own place, no more than fits.
    let got = unsafe {
        unseen_copy::process_id().and_then(|pid| {
            let args = [
                pid,
                (&raw const local) as usize,
                1,
                from.as_ptr() as usize,
                from.len(),
                0,
            ];
            syscall(nr::PROCESS_VM_READV, args)
        })
    };
    const ESRCH: i32 = 3;
    if got == Err(Errno(ESRCH)) {
        unseen_copy::is_another();
    }
    got.unwrap_or(0).min(local[1])
}

/// The addresses of the words by which a page is known: its first, as that one is in use when the page is, mostly, and
/// another, which lies elsewhere in each page, as headers are often alike.
fn marked_addresses(page: usize) -> [usize; 2] {
    const WORDS_PER_PAGE: usize = PAGE / size_of::<u64>();
    // The high bits of a product are those that all bits of the factor move.
    let mixed = (page / PAGE).wrapping_mul(EMPTY_HASH as usize) >> 48;
    [
        page,
        page + (1 + mixed % (WORDS_PER_PAGE - 1)) * size_of::<u64>(),
    ]
}

const EMPTY_HASH: u64 = 0x9e37_79b9_7f4a_7c15;

fn hash_words(hash: u64, words: [u64; 2]) -> u64 {
    // A step of SplitMix64 for each word.
    words.into_iter().fold(hash, |hash, word| {
        let x = (hash ^ word).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x ^ (x >> 31)
    })
}

/// Whether each page of a range has memory, or is swapped out; none where that could not be read.
fn are_all_there(kernel: &Linux, range: Range) -> Option<bool> {
    /// So many bytes of a signal handler's stack are used.
    const AT_ONCE: usize = 256;
    let mut vector = [0_u8; AT_ONCE];
    let mut start = range.start;
    while start < range.end {
        let end = range.end.min(start + AT_ONCE * PAGE);
        let part = Range { start, end };
        let pages = &mut vector[..part.len() / PAGE];
        // SAFETY: it only looks.
        match unsafe { kernel.mincore(part, pages) } {
            // A page that it does not name may be swapped out.
            Ok(()) if pages.iter().any(|page| page & 1 == 0) => {
                if !pagemap::all_there(part)? {
                    return Some(false);
                }
            }
            Ok(()) => {}
            Err(_) => return Some(false),
        }
        start = end;
    }
    Some(true)
}

/// Shows the words of each page until `go_on` says no. Whether it never did, and all could be read.
///
/// It is a function by itself, so that its part of the stack is free again: that may be a signal handler's.
#[inline(never)]
fn each_word(range: Range, mut go_on: impl FnMut([u64; 2]) -> bool) -> bool {
    const PAGES_PER_COPY: usize = 32;
    let mut start = range.start;
    while start < range.end {
        let end = range.end.min(start + PAGES_PER_COPY * PAGE);
        let count = (end - start) / PAGE;
        let mut words = [[0_u64; 2]; PAGES_PER_COPY];
        let mut vector = [[0_usize; 2]; 2 * PAGES_PER_COPY];
        for (n, io) in vector[..2 * count].iter_mut().enumerate() {
            *io = [
                marked_addresses(start + n / 2 * PAGE)[n % 2],
                size_of::<u64>(),
            ];
        }
        let words = &mut words[..count];
        let len = size_of_val(words);
        if copy_readable(words, &vector[..2 * count]) != len
            || !words.iter().all(|both| go_on(*both))
        {
            return false;
        }
        start = end;
    }
    true
}

/// See [`Threads::thread_cpu_ns`].
fn cpu_now() -> u64 {
    time_of(CLOCK_THREAD_CPUTIME_ID)
}

/// Nanoseconds.
fn time_of(clock: usize) -> u64 {
    let mut time = [0_i64; 2];
    let args = [clock, (&raw mut time) as usize, 0, 0, 0, 0];
    // SAFETY: clock_gettime(2) into our own place.
    let _ = unsafe { syscall(nr::CLOCK_GETTIME, args) };
    time[0] as u64 * 1_000_000_000 + time[1] as u64
}

/// Wakes so many at most that sleep on a word.
fn wake_sleepers(word: &AtomicU32, most: usize) {
    let args = [word.as_ptr() as usize, FUTEX_WAKE_PRIVATE, most, 0, 0, 0];
    // SAFETY: futex(2) on a word that lives.
    let _ = unsafe { syscall(nr::FUTEX, args) };
}

/// See [`Threads::thread_id`].
fn thread_pointer() -> usize {
    let own: usize;
    // SAFETY: the first word of a thread's control block is its own address, in glibc and in musl
    // (the ABI for thread-local storage on x86-64, variant II).
    unsafe { asm!("mov {}, fs:0", out(reg) own, options(nostack, readonly, preserves_flags)) };
    own
}

/// Whether a page has nothing but zeros. One that was used mostly says so in its first line.
unsafe fn is_zero(page: usize) -> bool {
    const WORDS_PER_LINE: usize = 8;
    // SAFETY: the caller's page.
    let lines =
        unsafe { core::slice::from_raw_parts(page as *const [u64; WORDS_PER_LINE], PAGE / 64) };
    lines
        .iter()
        .all(|line| line.iter().fold(0, |all, word| all | word) == 0)
}

impl Default for Linux {
    fn default() -> Self {
        Self::new()
    }
}

/// mmap(2) of the kernel's, also for calls that come while the library is being made.
///
/// # Safety
///
/// As mmap(2).
///
/// # Errors
///
/// Those of mmap(2).
pub unsafe fn mmap(map: &Map) -> Result<usize, Errno> {
    let args = [
        map.addr,
        map.len,
        map.prot as usize,
        map.flags as usize,
        map.fd as isize as usize,
        map.offset as usize,
    ];
    // SAFETY: the caller's own call.
    unsafe { syscall(nr::MMAP, args) }
}

impl Threads for Linux {
    fn thread_id(&self) -> usize {
        thread_pointer()
    }

    fn sleep_while(&self, word: &AtomicU32, value: u32, ms: u32) {
        let time = [i64::from(ms / 1000), i64::from(ms % 1000) * 1_000_000];
        let args = [
            word.as_ptr() as usize,
            FUTEX_WAIT_PRIVATE,
            value as usize,
            (&raw const time) as usize,
            0,
            0,
        ];
        // SAFETY: futex(2) on a word that lives, with a relative time.
        let _ = unsafe { syscall(nr::FUTEX, args) };
    }

    fn wake_all(&self, word: &AtomicU32) {
        wake_sleepers(word, i32::MAX as usize);
    }

    fn wake_one(&self, word: &AtomicU32) {
        wake_sleepers(word, 1);
    }

    fn is_asleep(&self, thread: usize) -> bool {
        !self.filter.has_come() && thread_state::is_asleep(thread)
    }

    fn now_ns(&self) -> u64 {
        if self.filter.is_there() {
            // Of 2 to 5 GHz: right within a factor of three, and only ever compared.
            // SAFETY: every x86-64 has it, and Linux lets programs use it unless they forbid it (PR_SET_TSC).
            return unsafe { core::arch::x86_64::_rdtsc() } / 3;
        }
        time_of(CLOCK_MONOTONIC)
    }

    fn thread_cpu_ns(&self) -> u64 {
        self.cpu_time_of(CLOCK_THREAD_CPUTIME_ID)
    }

    fn process_cpu_ns(&self) -> u64 {
        self.cpu_time_of(CLOCK_PROCESS_CPUTIME_ID)
    }
}

impl Linux {
    /// By this clock, or by the one that needs no system call, see [`Threads::thread_cpu_ns`].
    fn cpu_time_of(&self, clock: usize) -> u64 {
        if self.filter.is_there() {
            self.now_ns()
        } else {
            time_of(clock)
        }
    }
}

// SAFETY: it is Linux.
unsafe impl Kernel for Linux {
    unsafe fn mmap(&self, map: &Map) -> Result<usize, Errno> {
        // SAFETY: the caller's own call.
        unsafe { mmap(map) }
    }

    unsafe fn munmap(&self, addr: usize, len: usize) -> Result<(), Errno> {
        // SAFETY: the caller's own call.
        unsafe { syscall(nr::MUNMAP, [addr, len, 0, 0, 0, 0]) }.map(drop)
    }

    unsafe fn mprotect(&self, addr: usize, len: usize, prot: i32) -> Result<(), Errno> {
        // SAFETY: the caller's own call.
        unsafe { syscall(nr::MPROTECT, [addr, len, prot as usize, 0, 0, 0]) }.map(drop)
    }

    unsafe fn madvise(&self, addr: usize, len: usize, advice: i32) -> Result<(), Errno> {
        // SAFETY: the caller's own call.
        unsafe { syscall(nr::MADVISE, [addr, len, advice as usize, 0, 0, 0]) }.map(drop)
    }

    unsafe fn mremap(
        &self,
        old: usize,
        old_len: usize,
        new_len: usize,
        flags: i32,
        new: usize,
    ) -> Result<usize, Errno> {
        let args = [old, old_len, new_len, flags as usize, new, 0];
        // SAFETY: the caller's own call.
        unsafe { syscall(nr::MREMAP, args) }
    }

    unsafe fn unname(&self, range: Range) -> Result<(), Errno> {
        if self.filter.is_there() {
            return Err(Errno::EPERM);
        }
        let args = [
            PR_SET_VMA,
            PR_SET_VMA_ANON_NAME,
            range.start,
            range.len(),
            0,
            0,
        ];
        // SAFETY: it changes no content and no right.
        unsafe { syscall(nr::PRCTL, args) }.map(drop)
    }

    unsafe fn advise_each(&self, ranges: &[Part], advice: i32) -> Result<usize, Errno> {
        if self.filter.is_there() {
            return Err(Errno::EPERM);
        }
        let advice = advice as usize;
        let (at, count) = (ranges.as_ptr() as usize, ranges.len());
        let args = [PIDFD_SELF_PROCESS as usize, at, count, advice, 0, 0];
        // SAFETY: the caller's own call. Before Linux 6.13 (advice to oneself) and 6.15 (PIDFD_SELF) it is
        // refused; before 6.16 each range is a shootdown (mm/madvise.c).
        unsafe { syscall(nr::PROCESS_MADVISE, args) }
    }

    unsafe fn mincore(&self, range: Range, pages: &mut [u8]) -> Result<(), Errno> {
        if pages.len() < range.len() / PAGE {
            return Err(Errno::EINVAL);
        }
        if self.filter.has_come() {
            return Err(Errno::EPERM);
        }
        let args = [
            range.start,
            range.len(),
            pages.as_mut_ptr() as usize,
            0,
            0,
            0,
        ];
        // SAFETY: one byte a page fits, as just seen.
        unsafe { syscall(nr::MINCORE, args) }.map(drop)
    }

    unsafe fn zero(&self, range: Range) {
        // SAFETY: the caller's range, which nobody else uses now.
        unsafe { core::ptr::write_bytes(range.start as *mut u8, 0, range.len()) }
    }

    unsafe fn clear_used(&self, range: Range) -> usize {
        /// To look at each page takes a quarter of the time to zero it, so pages are looked at one by one only
        /// where one of so many samples, spread over the range, has nothing in it. Else all count as used.
        const MAX_SAMPLES: usize = 4;
        let pages = (range.start..range.end).step_by(PAGE);
        // SAFETY: pages of the caller's range, which nobody else uses now.
        unsafe {
            let step = pages.len().div_ceil(MAX_SAMPLES).max(1);
            if !pages.clone().step_by(step).any(|page| is_zero(page)) {
                self.zero(range);
                return 0;
            }
            let mut zeros = 0;
            for page in pages {
                if is_zero(page) {
                    zeros += 1;
                } else {
                    core::ptr::write_bytes(page as *mut u8, 0, PAGE);
                }
            }
            zeros
        }
    }

    fn count_used(&self, pages: &[usize]) -> Option<usize> {
        /// Looked at where a page begins and in its middle.
        const SPOT_BYTES: usize = 32;
        const SPOTS_PER_PAGE: usize = 2;
        /// Callers have eight at most.
        const MAX_COPIED_PAGES: usize = 16;
        if self.filter.is_there() {
            return None;
        }
        let mut words = [0_u8; MAX_COPIED_PAGES * SPOTS_PER_PAGE * SPOT_BYTES];
        let mut vector = [[0_usize; 2]; MAX_COPIED_PAGES * SPOTS_PER_PAGE];
        let count = pages.len().min(MAX_COPIED_PAGES);
        for (spots, page) in vector.chunks_exact_mut(SPOTS_PER_PAGE).zip(pages) {
            for (n, spot) in spots.iter_mut().enumerate() {
                *spot = [page + n * (PAGE / SPOTS_PER_PAGE), SPOT_BYTES];
            }
        }
        let wanted = count * SPOTS_PER_PAGE;
        if copy_readable(&mut words, &vector[..wanted]) != wanted * SPOT_BYTES {
            return None;
        }
        let pages = words[..wanted * SPOT_BYTES].chunks_exact(SPOTS_PER_PAGE * SPOT_BYTES);
        Some(pages.filter(|page| page.iter().any(|b| *b != 0)).count())
    }

    fn is_locked(&self, range: Range) -> bool {
        const MS_INVALIDATE: usize = 2;
        let args = [range.start, range.len(), MS_INVALIDATE, 0, 0, 0];
        // SAFETY: of memory of no file it only asks: msync(2) says EBUSY of locked memory.
        unsafe { syscall(nr::MSYNC, args) }.is_err()
    }

    fn mapping_ns(&self) -> usize {
        maps::takes_ns()
    }

    fn mapping_at(&self, range: Range) -> Option<Mapping> {
        if self.filter.has_come() {
            return None;
        }
        maps::mapping_at(range)
    }

    fn all_there(&self, range: Range) -> Option<bool> {
        let refused = OPEN_FILES.refused_count();
        let told = are_all_there(self, range);
        // An entry that could not be read, though no thread forked, never can, as after chroot(2).
        told.or_else(|| (OPEN_FILES.refused_count() == refused).then_some(false))
    }

    unsafe fn write_marks(&self, range: Range, mark: u64) {
        for page in (range.start..range.end).step_by(PAGE) {
            // SAFETY: the caller's page.
            unsafe { (page as *mut u64).write_volatile(mark) };
        }
    }

    fn is_marked(&self, range: Range, mark: u64) -> bool {
        !self.filter.is_there() && each_word(range, |[first, _]| first == mark)
    }

    unsafe fn has_marks(&self, range: Range, mark: u64) -> bool {
        let mut pages = (range.start..range.end).step_by(PAGE);
        // SAFETY: the caller's page.
        pages.all(|page| unsafe { (page as *const u64).read_volatile() } == mark)
    }

    unsafe fn clear_marked(&self, range: Range, mark: u64) -> usize {
        for start in (range.start..range.end).step_by(PAGE) {
            let page = Range::page_at(start);
            // SAFETY: the caller's page, which begins with a word of its own. One access that reads and writes: of a page that
            // the kernel was offered the CPU notes the first of either kind in the page table, which takes half a microsecond each.
            let word = unsafe { AtomicU64::from_ptr(start as *mut u64) };
            let order = Ordering::Relaxed;
            if word.compare_exchange(mark, 0, order, order).is_err() {
                return start - range.start;
            }
            // SAFETY: as above.
            unsafe { self.zero(page) };
        }
        range.len()
    }

    unsafe fn fingerprint(&self, range: Range) -> u64 {
        let mut hash = EMPTY_HASH;
        for page in (range.start..range.end).step_by(PAGE) {
            // SAFETY: words of the caller's page.
            let words =
                marked_addresses(page).map(|at| unsafe { (at as *const u64).read_volatile() });
            hash = hash_words(hash, words);
        }
        hash | 1
    }

    fn has_fingerprint(&self, range: Range, fingerprint: u64) -> bool {
        let mut hash = EMPTY_HASH;
        let all = !self.filter.is_there()
            && each_word(range, |words| {
                hash = hash_words(hash, words);
                true
            });
        all && hash | 1 == fingerprint
    }

    fn pinned_pages(&self) -> Pins {
        pins::or_while_forking(|| {
            if self.filter.has_come() {
                Pins::Perhaps
            } else {
                pins::find_pins()
            }
        })
    }

    fn is_unseen_copy(&self) -> bool {
        #[cfg(quell_preload)]
        if unseen_copy::is_first_call() {
            self.notice_copies();
        }
        unseen_copy::is_unseen()
    }

    fn is_filtered(&self) -> bool {
        self.filter.has_come()
    }

    fn implies_exec(&self) -> bool {
        const READ_IMPLIES_EXEC: usize = 0x40_0000;
        const READ_PERSONALITY: usize = 0xffff_ffff;
        // SAFETY: it only asks.
        let now = unsafe { syscall(nr::PERSONALITY, [READ_PERSONALITY, 0, 0, 0, 0, 0]) };
        !now.is_ok_and(|now| now & READ_IMPLIES_EXEC == 0)
    }

    unsafe fn count_not_zero(&self, pages: &[usize]) -> usize {
        // SAFETY: the caller's pages.
        let used = pages.iter().filter(|page| !unsafe { is_zero(**page) });
        used.count()
    }

    fn has_nothing(&self, range: Range) -> bool {
        !self.filter.is_there() && pagemap::has_nothing(range)
    }

    fn is_own(&self, range: Range) -> bool {
        !self.filter.has_come() && pagemap::are_exclusive(range)
    }

    fn has_page_of_zeros(&self, range: Range) -> bool {
        self.filter.is_there() || !pagemap::has_no_page_of_zeros(range) && !self.is_own(range)
    }

    fn fork_begins(&self) {
        OPEN_FILES.fork_begins(self.thread_id(), || {
            self.sleep_while(&AtomicU32::new(0), 0, 1);
        });
    }

    fn fork_is_over(&self, child: bool) {
        if child {
            self.pressed.abandon_in_child(self.thread_id());
            unseen_copy::is_seen();
            // Under a filter it stays open: to close it takes a call that the program might not make.
            let may_close = LazyCell::new(|| !self.filter.has_come());
            maps::forget_descriptor(|| *may_close);
            pagemap::forget_descriptor(|| *may_close);
        }
        OPEN_FILES.fork_is_over(child);
    }

    fn resident_bytes(&self) -> Option<usize> {
        if self.filter.has_come() {
            return None;
        }
        let mut buffer = [0; 64];
        let text = File::named(b"/proc/self/statm\0").read_start(&mut buffer)?;
        // Pages: all, and in memory (proc_pid_statm(5)). The kernel's sum may be off by some pages for each
        // thread, which it counts first by itself.
        let second = text.iter().position(|b| *b == b' ')? + 1;
        Some(usize::try_from(leading_number(&text[second..])?).ok()? * PAGE)
    }

    fn mapping_limit(&self) -> Option<usize> {
        (!self.filter.has_come()).then(mapping_limit::lowest_limit)?
    }

    fn memory_pressure(&self) -> Option<Pressure> {
        self.pressed.read_pressure(self.thread_id())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that two threads have different numbers, and each the same twice.
    #[test]
    fn threads() {
        let linux = Linux::new();
        let mine = linux.thread_id();
        let theirs = std::thread::spawn(|| Linux::new().thread_id())
            .join()
            .unwrap();
        assert!(mine != 0 && mine != theirs && mine == linux.thread_id());
    }

    /// Check on the real kernel what the logic rests on: what is in use is seen without a fault, and
    /// pages that nobody shares are own.
    #[test]
    fn looks_at_pages() {
        let linux = Linux::new();
        let map = Map {
            addr: 0,
            len: 4 * PAGE,
            prot: 3,
            flags: 0x22,
            fd: -1,
            offset: 0,
        };
        // SAFETY: a mapping of our own.
        unsafe {
            let at = linux.mmap(&map).unwrap();
            *((at + PAGE) as *mut u8) = 1;
            let pages = [at + PAGE];
            assert_eq!(linux.count_used(&pages), Some(1));
            let range = Range::from_addr_len(at, 4 * PAGE).unwrap();
            assert!(linux.is_own(range));
            assert!(!linux.has_page_of_zeros(range));
            let mut resident = [0; 4];
            linux.mincore(range, &mut resident).unwrap();
            assert_eq!(resident.map(|r| r & 1), [0, 1, 0, 0]);
            *((at + PAGE) as *mut u8) = 0;
            assert_eq!(linux.count_used(&pages), Some(0));
            // The page of zeros that all share, mapped by reading.
            assert_eq!(linux.count_used(&[at]), Some(0));
            assert!(!linux.is_own(range));
            assert!(linux.has_page_of_zeros(range));
            linux.munmap(at, 4 * PAGE).unwrap();
            assert_eq!(linux.count_used(&pages), None);
        }
    }
}
