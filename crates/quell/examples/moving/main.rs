//! Shoots while it is moved from CPU to CPU, and times itself, for the tests: `moving SECONDS FILE NUMBER`.
//!
//! Two threads write to two pages and give them back, at an address of its own each time, so that every shootdown tells which
//! call it is of. A third spins, to be hit. A fourth changes the affinity of the two all the time. FILE gets a line for each
//! call: the address, the thread, and when it began and ended (CLOCK_MONOTONIC, ns). Programs of different NUMBERs use different
//! addresses. It ends earlier than after so many seconds if it has shot a million times.

mod call;

use std::io::Write as _;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::{Duration, Instant};

use call::{Pages, TimedCall};

/// Far from what the loader and the allocator use; a program has 2^40 bytes from there, and a thread of it 2^36.
const BASE: usize = 0x1000_0000_0000;
const CULPRITS: usize = 2;
/// What a thread keeps of its calls is bounded.
const MOST_CALLS: usize = 500_000;

static DONE: AtomicBool = AtomicBool::new(false);
static THREADS: [AtomicI32; CULPRITS] = [const { AtomicI32::new(0) }; CULPRITS];

fn culprit(base: usize, index: usize) -> (i32, Vec<TimedCall>) {
    let thread = rustix::thread::gettid().as_raw_nonzero().get();
    THREADS[index].store(thread, Ordering::Release);
    let memory = Pages::map(base, MOST_CALLS);
    let mut calls = Vec::with_capacity(MOST_CALLS);
    while !DONE.load(Ordering::Relaxed) && calls.len() < MOST_CALLS {
        calls.push(memory.shoot(calls.len()));
    }
    DONE.store(true, Ordering::Relaxed);
    (thread, calls)
}

/// Puts each culprit on a CPU that is drawn by chance, again and again.
fn move_culprits(cpus: &[usize], seed: u32) {
    let mut x = seed | 1;
    while !DONE.load(Ordering::Relaxed) {
        for thread in &THREADS {
            // xorshift, Marsaglia 2003
            x ^= x << 13;
            x ^= x >> 17;
            x ^= x << 5;
            let thread = thread.load(Ordering::Acquire);
            if thread == 0 {
                continue;
            }
            // SAFETY: a zeroed cpu_set_t is an empty one; the call reads it only.
            unsafe {
                let mut set: libc::cpu_set_t = std::mem::zeroed();
                libc::CPU_SET(cpus[x as usize % cpus.len()], &mut set);
                libc::sched_setaffinity(thread, size_of_val(&set), &set);
            }
        }
        std::thread::yield_now();
    }
}

/// The CPUs that this process may run on.
fn allowed() -> Vec<usize> {
    // SAFETY: the call fills the set that it is given.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        assert_eq!(libc::sched_getaffinity(0, size_of_val(&set), &mut set), 0);
        (0..libc::CPU_SETSIZE as usize)
            .filter(|&cpu| libc::CPU_ISSET(cpu, &set))
            .collect()
    }
}

fn main() -> std::io::Result<()> {
    let words: Vec<String> = std::env::args().collect();
    let [_, seconds, path, number] = words.as_slice() else {
        return Err(std::io::Error::other("usage: moving SECONDS FILE NUMBER"));
    };
    let seconds: f64 = seconds.parse().map_err(std::io::Error::other)?;
    let number: usize = number.parse().map_err(std::io::Error::other)?;
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let cpus = allowed();
    let base = BASE + (number << 40);
    let mut calls = Vec::new();
    std::thread::scope(|scope| {
        let culprits: Vec<_> = (0..CULPRITS)
            .map(|index| scope.spawn(move || culprit(base + (index << 36), index)))
            .collect();
        scope.spawn(|| {
            while !DONE.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        scope.spawn(|| move_culprits(&cpus, std::process::id()));
        while Instant::now() < end && !DONE.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(20));
        }
        DONE.store(true, Ordering::Relaxed);
        for culprit in culprits {
            calls.push(
                culprit
                    .join()
                    .map_err(|_| std::io::Error::other("a culprit panicked")),
            );
        }
    });
    let mut out = std::io::BufWriter::new(std::fs::File::create(path)?);
    for of_thread in calls {
        let (thread, calls) = of_thread?;
        for call in calls {
            writeln!(out, "{}", call.line(thread))?;
        }
    }
    out.flush()
}
