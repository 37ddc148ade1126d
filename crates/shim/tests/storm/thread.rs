//! A thread that maps, unmaps and writes, and knows what must be where.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};

use libc::*;

const PAGE: usize = 4096;
/// Where a page says whose it is: at its begin, in the middle and at its end.
const SPOTS: [usize; 3] = [0, 2048, PAGE - 8];

/// Something that this thread has mapped: for each page what was written to it, 0 for nothing.
struct Mapping {
    at: usize,
    prot: i32,
    pages: Vec<u64>,
}

pub struct Thread {
    seed: u64,
    last: u64,
    mappings: Vec<Mapping>,
}

fn die(what: &str, at: usize) -> ! {
    eprintln!("{what} at {at:#x}: {}", std::io::Error::last_os_error());
    std::process::abort();
}

impl Thread {
    pub fn new(seed: u64) -> Thread {
        Thread {
            seed: seed | 1,
            last: seed << 20,
            mappings: Vec::new(),
        }
    }

    /// Up to, and without, `n` (xorshift64*).
    fn any(&mut self, n: usize) -> usize {
        self.seed ^= self.seed >> 12;
        self.seed ^= self.seed << 25;
        self.seed ^= self.seed >> 27;
        ((self.seed.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize) % n
    }

    pub fn step(&mut self, may_fork: bool) {
        match self.any(100) {
            0..=24 => self.map(),
            25..=44 => self.unmap(),
            45..=64 => self.write(),
            65..=72 => self.advise(MADV_DONTNEED),
            73..=75 => self.advise(MADV_FREE),
            76..=80 => self.protect(),
            81..=87 => self.remap(),
            88..=91 => self.replace(),
            92..=93 => self.lock(),
            94..=97 => self.check_one(),
            98 if may_fork && self.any(20) == 0 => self.fork(),
            _ => self.odd(),
        }
        while self.mappings.len() > 60 {
            self.unmap();
        }
    }

    fn size(&mut self) -> usize {
        match self.any(40) {
            0 => 1 + self.any(700),
            1..=9 => 1 + self.any(64),
            _ => 1 + self.any(8),
        }
    }

    fn map(&mut self) {
        let pages = self.size();
        let len = pages * PAGE - self.any(3);
        let populate = if self.any(10) == 0 { MAP_POPULATE } else { 0 };
        let reserve = if self.any(4) == 0 { MAP_NORESERVE } else { 0 };
        let flags = MAP_PRIVATE | MAP_ANONYMOUS | populate | reserve;
        let prot = if self.any(8) == 0 {
            PROT_NONE
        } else {
            PROT_READ | PROT_WRITE
        };
        // SAFETY: a new mapping.
        let at = unsafe { mmap(null_mut(), len, prot, flags, -1, 0) };
        if at == MAP_FAILED {
            die("mmap", len);
        }
        let mapping = Mapping {
            at: at as usize,
            prot,
            pages: vec![0; pages],
        };
        mapping.check();
        self.mappings.push(mapping);
    }

    fn pick(&mut self) -> Option<usize> {
        let len = self.mappings.len();
        (len > 0).then(|| self.any(len))
    }

    /// Part of a mapping, in pages.
    fn part(&mut self, n: usize) -> (usize, usize) {
        let pages = self.mappings[n].pages.len();
        if self.any(3) > 0 {
            return (0, pages);
        }
        let from = self.any(pages);
        (from, from + 1 + self.any(pages - from))
    }

    fn unmap(&mut self) {
        let Some(n) = self.pick() else { return };
        let (from, to) = self.part(n);
        self.mappings[n].check();
        let mut whole = self.mappings.swap_remove(n);
        let at = whole.at + from * PAGE;
        // SAFETY: this thread's own, and forgotten below.
        if unsafe { munmap(at as *mut _, (to - from) * PAGE) } != 0 {
            die("munmap", at);
        }
        let rest = whole.pages.split_off(to);
        whole.pages.truncate(from);
        if !rest.is_empty() {
            self.mappings.push(Mapping {
                at: whole.at + to * PAGE,
                prot: whole.prot,
                pages: rest,
            });
        }
        if !whole.pages.is_empty() {
            self.mappings.push(whole);
        }
    }

    fn write(&mut self) {
        let Some(n) = self.pick() else { return };
        let (from, to) = self.part(n);
        if self.mappings[n].prot & PROT_WRITE == 0 {
            return;
        }
        for page in from..to {
            self.last += 1;
            let (at, value) = (self.mappings[n].at + page * PAGE, self.last);
            self.mappings[n].pages[page] = value;
            for spot in SPOTS {
                // SAFETY: this thread's own page, which can be written.
                unsafe { ((at + spot) as *mut u64).write_volatile(value) };
            }
        }
    }

    fn advise(&mut self, advice: i32) {
        let Some(n) = self.pick() else { return };
        let (from, to) = self.part(n);
        let mapping = &mut self.mappings[n];
        mapping.check();
        let at = mapping.at + from * PAGE;
        // SAFETY: this thread's own; the content is not needed.
        if unsafe { madvise(at as *mut _, (to - from) * PAGE, advice) } != 0 {
            die("madvise", at);
        }
        if advice == MADV_DONTNEED {
            mapping.pages[from..to].fill(0);
            mapping.check();
        } else if mapping.prot & PROT_WRITE != 0 {
            // It may be as it was, or zero: say what it is, so that it is known again.
            for page in from..to {
                let at = mapping.at + page * PAGE;
                // SAFETY: this thread's own page.
                let value = unsafe { (at as *const u64).read_volatile() };
                if value != 0 && value != mapping.pages[page] {
                    die("MADV_FREE put something", at);
                }
                for spot in SPOTS {
                    // SAFETY: as above.
                    unsafe { ((at + spot) as *mut u64).write_volatile(mapping.pages[page]) };
                }
            }
        } else {
            // Nobody can write it to make sure; it goes.
            let gone = self.mappings.swap_remove(n);
            // SAFETY: this thread's own.
            unsafe { munmap(gone.at as *mut _, gone.pages.len() * PAGE) };
        }
    }

    fn protect(&mut self) {
        let Some(n) = self.pick() else { return };
        let prot = [
            PROT_READ | PROT_WRITE,
            PROT_READ,
            PROT_NONE,
            PROT_READ | PROT_WRITE | PROT_EXEC,
        ][self.any(4)];
        let mapping = &mut self.mappings[n];
        // SAFETY: this thread's own.
        if unsafe { mprotect(mapping.at as *mut _, mapping.pages.len() * PAGE, prot) } != 0 {
            die("mprotect", mapping.at);
        }
        mapping.prot = prot;
        mapping.check();
    }

    fn remap(&mut self) {
        let Some(n) = self.pick() else { return };
        let pages = self.size();
        let flags = if self.any(4) == 0 { 0 } else { MREMAP_MAYMOVE };
        let mapping = &mut self.mappings[n];
        let old = mapping.pages.len() * PAGE;
        // SAFETY: this thread's own.
        let at = unsafe { mremap(mapping.at as *mut _, old, pages * PAGE, flags) };
        if at == MAP_FAILED {
            // Where it is, it may not grow. Also what was mapped by two calls is moved, piece by piece.
            let why = std::io::Error::last_os_error().raw_os_error();
            if why != Some(ENOMEM) || flags != 0 {
                die("mremap", mapping.at);
            }
            return;
        }
        mapping.at = at as usize;
        mapping.pages.resize(pages, 0);
        mapping.check();
    }

    /// Something new over a part of what is there.
    fn replace(&mut self) {
        let Some(n) = self.pick() else { return };
        let (from, to) = self.part(n);
        let refused = self.any(4) == 0;
        let how = if refused {
            MAP_FIXED_NOREPLACE
        } else {
            MAP_FIXED
        };
        let mapping = &mut self.mappings[n];
        let at = mapping.at + from * PAGE;
        let flags = MAP_PRIVATE | MAP_ANONYMOUS | how;
        // SAFETY: over this thread's own.
        let done = unsafe { mmap(at as *mut _, (to - from) * PAGE, mapping.prot, flags, -1, 0) };
        if refused != (done == MAP_FAILED) || (!refused && done as usize != at) {
            die("mmap over something", at);
        }
        if !refused {
            mapping.pages[from..to].fill(0);
        }
        mapping.check();
    }

    fn lock(&mut self) {
        let Some(n) = self.pick() else { return };
        let (from, to) = self.part(n);
        let mapping = &self.mappings[n];
        let (at, len) = (
            (mapping.at + from * PAGE) as *mut c_void,
            (to - from) * PAGE,
        );
        // SAFETY: this thread's own.
        unsafe {
            if mapping.prot != PROT_NONE && mlock(at, len) == 0 {
                if madvise(at, len, MADV_DONTNEED) == 0 {
                    die("locked memory was given back", at as usize);
                }
                munlock(at, len);
            }
        }
        mapping.check();
    }

    /// What must not work, and attributes that must not be passed on.
    fn odd(&mut self) {
        let pages = self.size();
        // SAFETY: a new mapping of this thread's own, and what is nobody's.
        unsafe {
            let at = mmap(
                null_mut(),
                pages * PAGE,
                PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS,
                -1,
                0,
            );
            if at == MAP_FAILED {
                die("mmap", pages);
            }
            let advice = [
                MADV_DONTFORK,
                MADV_WIPEONFORK,
                MADV_NOHUGEPAGE,
                MADV_SEQUENTIAL,
            ][self.any(4)];
            if madvise(at, pages * PAGE, advice) != 0 {
                die("madvise", at as usize);
            }
            munmap(at, pages * PAGE);
            if munmap((at as usize + 1) as *mut _, PAGE) == 0
                || munmap(at, 0) == 0
                || madvise(at, PAGE, -1) == 0
            {
                die("what is wrong was done", at as usize);
            }
        }
    }

    /// The child goes on for a while with what it has.
    fn fork(&mut self) {
        // SAFETY: the child only does what this thread does, and leaves without its destructors.
        match unsafe { fork() } {
            0 => {
                self.check_all();
                for _ in 0..200 {
                    self.step(false);
                }
                self.check_all();
                // SAFETY: as above.
                unsafe { _exit(0) };
            }
            -1 => die("fork", 0),
            child => {
                let mut status = 0;
                self.check_all();
                // SAFETY: this thread's own child.
                while unsafe { waitpid(child, &raw mut status, 0) } != child {}
                if status != 0 {
                    eprintln!("a child ended with {status:#x}");
                    std::process::abort();
                }
            }
        }
    }

    fn check_one(&mut self) {
        if let Some(n) = self.pick() {
            self.mappings[n].check();
        }
    }

    pub fn check_all(&self) {
        self.mappings.iter().for_each(Mapping::check);
    }
}

impl Mapping {
    /// Every page is as it was written, or zero.
    fn check(&self) {
        if self.prot & PROT_READ == 0 {
            return;
        }
        for (n, value) in self.pages.iter().enumerate() {
            let at = self.at + n * PAGE;
            // SAFETY: this thread's own page, which can be read.
            let page = unsafe { std::slice::from_raw_parts(at as *const u64, PAGE / 8) };
            let spots = SPOTS.map(|s| page[s / 8]);
            if spots != [*value; 3] {
                die(&format!("{spots:x?} instead of {value:x}"), at);
            }
            if *value == 0 && page.iter().any(|w| *w != 0) {
                die("a page is not all zero", at);
            }
        }
    }
}

static HANDLED: AtomicU64 = AtomicU64::new(0);

pub fn handled() -> u64 {
    HANDLED.load(Ordering::Relaxed)
}

/// For a handler: says what went wrong, in one call, and with errno where there is one.
fn die_at_once(what: &[u8]) -> ! {
    // SAFETY: this call's own bytes; errno is this thread's.
    unsafe {
        let errno = *__errno_location() as u8;
        let mut text = [0; 64];
        text[..what.len()].copy_from_slice(what);
        let digits = [
            b' ',
            b'0' + errno / 100,
            b'0' + errno / 10 % 10,
            b'0' + errno % 10,
            b'\n',
        ];
        text[what.len()..what.len() + digits.len()].copy_from_slice(&digits);
        write(2, text.as_ptr().cast(), what.len() + digits.len());
        abort();
    }
}

/// What a signal handler may do to memory of its own, wherever it comes.
extern "C" fn handler(_: c_int) {
    // SAFETY: a mapping of the handler's own; errno is put back.
    unsafe {
        let errno = *__errno_location();
        let at = mmap(
            null_mut(),
            3 * PAGE,
            PROT_READ | PROT_WRITE,
            MAP_PRIVATE | MAP_ANONYMOUS,
            -1,
            0,
        );
        if at == MAP_FAILED {
            die_at_once(b"handler: mmap, errno");
        }
        let words = at.cast::<u64>();
        for n in [0, 512, 1024, 1535] {
            if words.add(n).read_volatile() != 0 {
                die_at_once(b"handler: a new page is not zero");
            }
            words.add(n).write_volatile(7);
        }
        if madvise(at, 3 * PAGE, MADV_DONTNEED) != 0 {
            die_at_once(b"handler: madvise, errno");
        }
        if words.add(512).read_volatile() != 0 {
            die_at_once(b"handler: not zero after MADV_DONTNEED");
        }
        words.add(1).write_volatile(9);
        if munmap(at, 3 * PAGE) != 0 {
            die_at_once(b"handler: munmap, errno");
        }
        *__errno_location() = errno;
    }
    HANDLED.fetch_add(1, Ordering::Relaxed);
}

/// A signal every millisecond of CPU time, in whichever thread runs.
pub fn with_timer() {
    // SAFETY: a handler that is fit for any moment, and a timer.
    unsafe {
        let mut action: sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = SA_RESTART;
        sigaction(SIGPROF, &raw const action, null_mut());
        let tick = timeval {
            tv_sec: 0,
            tv_usec: 1000,
        };
        let timer = itimerval {
            it_interval: tick,
            it_value: tick,
        };
        setitimer(ITIMER_PROF, &raw const timer, null_mut());
    }
}
