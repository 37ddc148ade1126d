//! Waits for the lock of its address space a number of times that the kernel counts itself, for the tests:
//! `kept_waiting ROUNDS`.
//!
//! In each round one thread changes the protection of many pages, which takes the lock alone for some milliseconds, and
//! another one asks a moment later which pages are in memory, for which it has to read. Who reads does not spin, so each such
//! wait is one voluntary switch away from the thread, and those are counted by getrusage(2). Prints one JSON object: `waits`,
//! `waited_ns` (by the clock around the calls, so more than was slept), `pid`, `tid` and `holder_tid`.

#![expect(clippy::print_stdout, reason = "it is a program")]

use std::os::fd::{AsRawFd as _, FromRawFd as _};
use std::ptr;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

const PAGE: usize = 4096;
const FILE: usize = 16 << 20;
/// The file is mapped so often in a row: many page tables of little memory.
const TIMES: usize = 64;
const BYTES: usize = FILE * TIMES;

/// So long after the other thread set out it is at work surely, or so late that it has not begun: either is counted right.
const MOMENT: Duration = Duration::from_micros(300);

fn mapped() -> *mut u8 {
    // SAFETY: new mappings over one that was made for them, of a new file that nobody else has the descriptor of.
    unsafe {
        let fd = libc::memfd_create(c"kept_waiting".as_ptr(), 0);
        assert!(fd >= 0, "memfd_create: {}", std::io::Error::last_os_error());
        let file = std::fs::File::from_raw_fd(fd);
        file.set_len(FILE as u64).expect("room in memory");
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let all = libc::mmap(ptr::null_mut(), BYTES, libc::PROT_NONE, flags, -1, 0);
        assert!(all != libc::MAP_FAILED, "no room for {BYTES} bytes");
        for n in 0..TIMES {
            let at = all.byte_add(n * FILE);
            let flags = libc::MAP_SHARED | libc::MAP_FIXED;
            let p = libc::mmap(at, FILE, libc::PROT_READ, flags, file.as_raw_fd(), 0);
            assert!(p == at, "mmap: {}", std::io::Error::last_os_error());
            for page in (0..FILE).step_by(PAGE) {
                p.cast::<u8>().add(page).read_volatile();
            }
        }
        all.cast()
    }
}

/// How often this thread gave its CPU up by itself.
fn switches() -> i64 {
    // SAFETY: the kernel fills it.
    unsafe {
        let mut used: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &raw mut used);
        used.ru_nvcsw
    }
}

fn tid() -> i32 {
    // SAFETY: takes nothing.
    unsafe { libc::gettid() }
}

#[inline(never)]
fn keeps_it(p: *mut u8, round: usize) {
    let protection = if round.is_multiple_of(2) {
        libc::PROT_READ | libc::PROT_WRITE
    } else {
        libc::PROT_READ
    };
    // SAFETY: memory of this program's, that nobody uses meanwhile.
    let failed = unsafe { libc::mprotect(p.cast(), BYTES, protection) };
    assert_eq!(failed, 0, "mprotect: {}", std::io::Error::last_os_error());
}

#[inline(never)]
fn waits_for_it(p: *mut u8) {
    let mut is_there = 0;
    // SAFETY: asks about one page of this program's, and the kernel fills one byte.
    let failed = unsafe { libc::mincore(p.cast(), PAGE, &raw mut is_there) };
    assert_eq!(failed, 0, "mincore: {}", std::io::Error::last_os_error());
}

/// An address that threads may share.
#[derive(Clone, Copy)]
struct Shared(*mut u8);
// SAFETY: threads only pass it to the kernel.
unsafe impl Send for Shared {}

impl Shared {
    fn get(self) -> *mut u8 {
        self.0
    }
}

fn main() {
    let rounds = std::env::args().nth(1).and_then(|n| n.parse().ok());
    let rounds: usize = rounds.expect("usage: kept_waiting ROUNDS");
    let memory = Shared(mapped());
    let (barrier, sets_out, holder_tid) = (Barrier::new(2), AtomicU32::new(0), AtomicU32::new(0));
    let (mut waits, mut waited) = (0, Duration::ZERO);
    std::thread::scope(|scope| {
        let (barrier, sets_out, holder_tid) = (&barrier, &sets_out, &holder_tid);
        scope.spawn(move || {
            holder_tid.store(tid().cast_unsigned(), Ordering::Relaxed);
            for round in 0..rounds {
                barrier.wait();
                sets_out.store(1, Ordering::Release);
                keeps_it(memory.get(), round);
                barrier.wait();
            }
        });
        for _ in 0..rounds {
            barrier.wait();
            while sets_out.swap(0, Ordering::Acquire) == 0 {
                std::hint::spin_loop();
            }
            let moment = Instant::now();
            while moment.elapsed() < MOMENT {
                std::hint::spin_loop();
            }
            let (before, began) = (switches(), Instant::now());
            waits_for_it(memory.get());
            waited += began.elapsed();
            waits += switches() - before;
            barrier.wait();
        }
    });
    println!(
        "{{\"waits\": {waits}, \"waited_ns\": {}, \"pid\": {}, \"tid\": {}, \"holder_tid\": {}}}",
        waited.as_nanos(),
        std::process::id(),
        tid(),
        holder_tid.load(Ordering::Relaxed)
    );
}
