//! Shoots some times, is quiet, and shoots again when it sees that an eBPF program is no longer attached somewhere, for the tests:
//! `late SECONDS FILE`.
//!
//! At the end of a recording what sees a shootdown begin is taken away before what sees its victims. FILE gets a line for
//! each call, as of `moving`. It shoots from one CPU at a thread that spins on another.

#[path = "../moving/call.rs"]
mod call;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use call::Pages;

const BASE: usize = 0x1000_0000_0000;
/// How often it shoots at most.
const MOST_CALLS: usize = 100_000;
/// How long it is quiet, so that nobody counts for another reason what it did before.
const QUIET: Duration = Duration::from_millis(100);
/// How long it shoots once a link is gone: longer than quell takes to detach the rest.
const LATE: Duration = Duration::from_millis(40);

static DONE: AtomicBool = AtomicBool::new(false);

/// How many programs are attached by a link, on the whole machine.
fn count_links() -> usize {
    /// bpf(2); linux/bpf.h.
    const BPF_LINK_GET_NEXT_ID: libc::c_long = 31;
    let (mut links, mut id) = (0, 0_u32);
    loop {
        // start_id, next_id, open_flags
        let mut attributes = [id, 0, 0];
        // SAFETY: the kernel reads and writes no more than the size that it is given.
        let failed = unsafe {
            libc::syscall(
                libc::SYS_bpf,
                BPF_LINK_GET_NEXT_ID,
                attributes.as_mut_ptr(),
                size_of_val(&attributes),
            )
        };
        if failed != 0 {
            return links;
        }
        id = attributes[1];
        links += 1;
    }
}

fn pin(cpu: usize) {
    // SAFETY: a zeroed cpu_set_t is an empty one; the call reads it only.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &set);
    }
}

fn main() -> std::io::Result<()> {
    let words: Vec<String> = std::env::args().collect();
    let [_, seconds, path] = words.as_slice() else {
        return Err(std::io::Error::other("usage: late SECONDS FILE"));
    };
    let seconds: f64 = seconds.parse().map_err(std::io::Error::other)?;
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    pin(0);
    let mut calls = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            pin(1);
            while !DONE.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        // the peer is off its CPU now and then
        let memory = Pages::map(BASE, MOST_CALLS);
        for call in 0..10 {
            std::thread::sleep(Duration::from_millis(5));
            calls.push(memory.shoot(call));
        }
        std::thread::sleep(QUIET);
        let before = count_links();
        while count_links() >= before && Instant::now() < end {
            std::thread::sleep(Duration::from_micros(100));
        }
        let until = Instant::now() + LATE;
        while Instant::now() < until && calls.len() < MOST_CALLS {
            calls.push(memory.shoot(calls.len()));
        }
        DONE.store(true, Ordering::Relaxed);
    });
    let thread = rustix::thread::gettid().as_raw_nonzero().get();
    let lines: Vec<String> = calls.iter().map(|call| call.line(thread)).collect();
    // whoever waits for the file sees all of it
    let unfinished = format!("{path}.unfinished");
    std::fs::write(&unfinished, lines.join("\n"))?;
    std::fs::rename(unfinished, path)
}
