//! Spends time by one mechanism of memory management on purpose, for the tests: `spends MECHANISM MILLISECONDS`.
//!
//! All of it happens in one function, `spend_…`, so that the account has a function to name, and in a process of its own.
//! When that has ended, the first prints what both used of the CPUs, as the kernel tells it (getrusage(2)), ns. With
//! `itself` as third argument all happens in the first, which prints what it did with its time. `QUELL_TEST_FIRST` has it run
//! before all others.
//!
//! Its files are nameless. What it changes on the system is undone, whatever happens to it; for what cannot be, as it takes
//! all memory or settings of the whole system, `QUELL_TEST_VM` has to say that this is a virtual machine of the tests. Ends
//! with status 77 and a reason where this kernel or this place can't have the mechanism.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it is a program")]

mod calls;
mod memory;
mod processes;
mod sleeps;
mod system;
mod threads;
mod undo;
mod until;
mod userfault;

use std::time::Duration;

use until::Until;

/// The status of a test that could not run, as in automake.
const ABSENT: i32 = 77;

fn absent(why: &str) -> ! {
    eprintln!("{why}");
    std::process::exit(ABSENT);
}

/// No memory management at all.
#[inline(never)]
fn spend_nothing(until: &Until) {
    while until.goes_on() {}
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let (own, mechanism, ms) = match args.as_slice() {
        [own, mechanism, ms] => return watch(own, mechanism, ms),
        [own, mechanism, ms, _] => (own, mechanism, ms),
        _ => absent("usage: spends MECHANISM MILLISECONDS [itself]"),
    };
    if std::env::var_os("QUELL_TEST_FIRST").is_some() {
        before_others();
    }
    let ms = Duration::from_millis(ms.parse().expect("milliseconds"));
    let until = Until::over_in(ms);
    match mechanism.as_str() {
        "nothing" => spend_nothing(&until),
        "fault.major" => sleeps::spend_reading(&until),
        "fault.swap" => system::spend_swapped(&until),
        "thrashing" => system::spend_thrashing(&until),
        "shootdown.wait" => sleeps::spend_shooting(&until),
        "lock.mmap" => sleeps::spend_waiting(&until),
        "lock.rmap" => sleeps::spend_listing(&until),
        "writeback" => sleeps::spend_writing(&until),
        "userfault" => userfault::spend_userfault(&until),
        "exit" => processes::spend_ending(&until),
        "exec" => processes::spend_starting(own, &until),
        "reclaim.direct" => system::spend_freeing(&until),
        "compact.direct" => system::spend_compacting(&until),
        "migrate" => system::spend_moving(&until),
        other if calls::spend_memory(other, &until) || threads::employ(other, &until) => {}
        other => absent(&format!("no way to make '{other}'")),
    }
    println!("{}", until::told());
}

/// As soon as it can run it does, whoever else wants the CPU: so no time passes that is no wait of its own.
fn before_others() {
    let param = libc::sched_param { sched_priority: 1 };
    // SAFETY: it is read only. Without the right to it, all stays as it was.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const param) };
}

/// Runs the rest in a child, and prints what both used.
fn watch(own: &str, mechanism: &str, ms: &str) {
    let child = std::process::Command::new(own)
        .args([mechanism, ms, "itself"])
        .stdout(std::process::Stdio::null())
        .status()
        .expect("it starts itself");
    if !child.success() {
        std::process::exit(child.code().unwrap_or(1));
    }
    // SAFETY: the kernel fills it.
    let (own, children) = unsafe {
        let mut own: libc::rusage = std::mem::zeroed();
        let mut children: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut own);
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut children);
        (own, children)
    };
    let ns = |t: libc::timeval| t.tv_sec * 1_000_000_000 + t.tv_usec * 1000;
    let sum = |u: &libc::rusage| ns(u.ru_utime) + ns(u.ru_stime);
    println!("{}", sum(&own) + sum(&children));
}
