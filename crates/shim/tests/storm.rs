//! Random calls of several threads under the real library and the real kernel, with forks and signal
//! handlers, each thread against its own model of what it has mapped.
//!
//! `QUELL_STORM=600` runs for so many seconds instead of some; `QUELL_STORM_SEED` repeats one.
#![cfg(not(any(miri, loom)))]
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    clippy::print_stdout,
    unreachable_pub,
    missing_docs,
    reason = "a test"
)]

mod preload;
#[path = "storm/thread.rs"]
mod thread;

use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Small budgets and large, and each way to give back.
const SETTINGS: &[&str] = &[
    "",
    "cache=256K,keep=128K,zero=64K",
    "cache=1M,keep=1M,trim=each",
    "cache=16M,zero=1M,prefault=64K,huge=2M",
    "cache=2M,zero=off,free=pass",
    "strict",
    // As users have it: by the habits of sizes, and with what is paused where many threads are at the lock.
    "lifetimes=1,cache=1M",
];

/// Check that under any settings the real library on the real kernel keeps what Linux promises.
#[test]
fn storm() {
    let all = number("QUELL_STORM").unwrap_or(6);
    let each = Duration::from_secs((all / SETTINGS.len() as u64).max(1));
    let time = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap();
    let seed = number("QUELL_STORM_SEED").unwrap_or(time.as_nanos() as u64);
    for settings in SETTINGS {
        println!("seed {seed}, {each:?} of QUELL_SHIM='{settings}'");
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "under_the_library", "--ignored", "--nocapture"])
            .env("QUELL_STORM_SEED", seed.to_string())
            .env("QUELL_STORM_EACH", each.as_secs().to_string());
        let output = preload::run(&mut command, settings, each + preload::LONGEST);
        let (out, err) = (
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        );
        assert!(
            output.status.success(),
            "seed {seed}, '{settings}': {}\n{out}{err}",
            output.status
        );
        for line in out.lines().filter(|l| l.contains("steps")) {
            println!("  {line}");
        }
    }
}

/// What runs under the library: four threads, and timers in all of them.
#[test]
#[ignore = "started by `storm`"]
fn under_the_library() {
    let each = Duration::from_secs(number("QUELL_STORM_EACH").unwrap_or(1));
    let seed = number("QUELL_STORM_SEED").unwrap_or(1);
    thread::with_timer();
    let end = Instant::now() + each;
    let threads: Vec<_> = (0..4)
        .map(|n| {
            std::thread::spawn(move || {
                let mut thread = thread::Thread::new(seed ^ (n * 0x1234_5678_9abc));
                let mut steps = 0_u64;
                while Instant::now() < end {
                    for _ in 0..100 {
                        thread.step(true);
                    }
                    steps += 100;
                }
                thread.check_all();
                steps
            })
        })
        .collect();
    let steps: u64 = threads.into_iter().map(|t| t.join().unwrap()).sum();
    println!("did {steps} steps");
    assert!(thread::handled() > 0, "no signal came");
}
