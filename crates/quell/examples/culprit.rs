//! Makes a known number of shootdowns by each of munmap, madvise and mprotect, for the tests.
//!
//! `culprit COUNT` prints one line for each: the cause, the first address, the address after the
//! last, and the pages of a shootdown, which are all of these but with mprotect. That goes over them from
//! the first to the last: to make pages writable again shoots as well before Linux 5.19. The main thread
//! shoots from one CPU at a peer that spins on another one.
//!
//! A peer that is not running is not interrupted, so it runs as real-time until the main thread is done, which takes
//! long where others want its CPU, and sleeps for a moment in between: the kernel ends one that does not by
//! RLIMIT_RTTIME, and the process by an alarm, whatever happens here. Where `QUELL_TEST_DEADLINE` gives seconds, for an
//! emulated machine that has nothing else to do, it stays an ordinary thread.

#![expect(clippy::print_stdout, reason = "it is a program")]

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Where the ranges lie: far from what the loader and the allocator use.
const BASE: usize = 0x1000_0000_0000;
const PAGE: usize = 4096;

static READY: AtomicBool = AtomicBool::new(false);
static DONE: AtomicBool = AtomicBool::new(false);
/// Grows while the peer runs.
static BEATS: AtomicU64 = AtomicU64::new(0);

fn pin(cpu: usize) {
    // SAFETY: a zeroed cpu_set_t is an empty one; the call reads it only.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        assert_eq!(
            libc::sched_setaffinity(0, size_of_val(&set), &set),
            0,
            "can't run on CPU {cpu}"
        );
    }
}

/// The CPUs that this process may run on.
fn allowed() -> Vec<usize> {
    // SAFETY: the call fills the set that it is given.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        assert_eq!(libc::sched_getaffinity(0, size_of_val(&set), &mut set), 0);
        (0..libc::CPU_SETSIZE as usize)
            .filter(|&c| libc::CPU_ISSET(c, &set))
            .collect()
    }
}

/// As real-time it sleeps after so long: whoever else is to run on its CPU gets there, if little.
const SPIN: Duration = Duration::from_millis(100);
const SLEEP: Duration = Duration::from_millis(1);

/// Without a deadline by the environment, s.
const LONGEST: u32 = 120;

/// Spins on a CPU until the main thread has done its work, or the deadline has passed.
fn peer(cpu: usize, deadline: Option<Duration>) {
    pin(cpu);
    let is_real_time = deadline.is_none();
    if is_real_time {
        let param = libc::sched_param { sched_priority: 1 };
        // SAFETY: the call reads `param` only. Without the right to it the peer stays an ordinary thread.
        unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &param) };
    }
    let mut slept = Instant::now();
    let deadline = slept + deadline.unwrap_or(Duration::from_secs(LONGEST.into()));
    READY.store(true, Ordering::Release);
    while !DONE.load(Ordering::Acquire) {
        let now = Instant::now();
        if now >= deadline {
            return;
        }
        if is_real_time && now - slept > SPIN {
            std::thread::sleep(SLEEP);
            slept = Instant::now();
        }
        BEATS.fetch_add(1, Ordering::Relaxed);
    }
}

fn check(what: &str, ret: i32) {
    assert_eq!(ret, 0, "{what}: {}", std::io::Error::last_os_error());
}

fn map(at: usize, pages: usize) -> *mut u8 {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: NOREPLACE takes no mapping away from anybody.
    let p = unsafe {
        libc::mmap(
            ptr::without_provenance_mut(at),
            pages * PAGE,
            libc::PROT_READ | libc::PROT_WRITE,
            flags,
            -1,
            0,
        )
    };
    assert_eq!(p.addr(), at, "mmap: {}", std::io::Error::last_os_error());
    p.cast()
}

fn touch(p: *mut u8, pages: usize) {
    for i in 0..pages {
        // SAFETY: the caller mapped so many pages, readable and writable.
        unsafe { p.add(i * PAGE).write_volatile(1) };
    }
}

/// Waits until the peer is running: the kernel's fair server takes the CPU from real-time threads too, and others from one
/// that is not. One that never comes costs the test its shootdowns, not its end.
fn wait_for_peer() {
    let deadline = Instant::now() + Duration::from_secs(20);
    let before = BEATS.load(Ordering::Relaxed);
    while BEATS.load(Ordering::Relaxed) < before + 10 && Instant::now() < deadline {
        std::hint::spin_loop();
    }
}

fn main() {
    let count: usize = std::env::args()
        .nth(1)
        .and_then(|a| a.parse().ok())
        .expect("usage: culprit COUNT");
    let cpus = allowed();
    assert!(cpus.len() > 1, "one CPU: nobody to shoot at");
    let deadline: Option<u32> = std::env::var("QUELL_TEST_DEADLINE")
        .ok()
        .and_then(|s| s.parse().ok());
    // SAFETY: plain system calls without memory, but for the limit that is read.
    unsafe {
        libc::alarm(deadline.unwrap_or(LONGEST));
        let limit = libc::rlimit {
            rlim_cur: 900_000,
            rlim_max: 900_000,
        };
        libc::setrlimit(libc::RLIMIT_RTTIME, &limit);
    }
    pin(cpus[0]);
    let longest = deadline.map(|s| Duration::from_secs(u64::from(s)));
    let thread = std::thread::spawn(move || peer(cpus[1], longest));
    while !READY.load(Ordering::Acquire) {
        std::thread::yield_now();
    }

    for _ in 0..count {
        let p = map(BASE, 4);
        touch(p, 4);
        wait_for_peer();
        // SAFETY: mapped above, used by nobody else.
        check("munmap", unsafe { libc::munmap(p.cast(), 4 * PAGE) });
    }
    let advised = map(BASE + 64 * PAGE, 3);
    for _ in 0..count {
        touch(advised, 3);
        wait_for_peer();
        // SAFETY: as above; the pages read as zero afterwards.
        check("madvise", unsafe {
            libc::madvise(advised.cast(), 3 * PAGE, libc::MADV_DONTNEED)
        });
    }
    let protected = map(BASE + 128 * PAGE, 2 * count);
    // SAFETY: mapped above; a huge page would be split, which shoots too.
    unsafe { libc::madvise(protected.cast(), 2 * count * PAGE, libc::MADV_NOHUGEPAGE) };
    for i in 0..count {
        let pair = protected.wrapping_add(2 * i * PAGE);
        touch(pair, 2);
        wait_for_peer();
        // SAFETY: mapped above, and not touched again.
        check("mprotect", unsafe {
            libc::mprotect(pair.cast(), 2 * PAGE, libc::PROT_NONE)
        });
    }
    DONE.store(true, Ordering::Release);
    thread.join().expect("the peer");
    for (cause, at, pages, times) in [
        ("munmap", 0, 4, 1),
        ("madvise.dontneed", 64, 3, 1),
        ("mprotect", 128, 2, count),
    ] {
        let start = BASE + at * PAGE;
        println!("{cause} {start} {} {pages}", start + times * pages * PAGE);
    }
}
