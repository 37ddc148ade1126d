//! jabperf's madv: N threads, each on a CPU of its own, that advise one page away a million times
//! (jabperf.com, "How to deter or disarm TLB shootdowns"). The page is the same for all of them.

use std::io;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use crate::memory::{LabMapping, PAGE_BYTES};
use crate::pin;

/// A thread that has not done its calls by then stops: nothing here runs for ever.
const MAX_RUN_TIME: Duration = Duration::from_secs(120);

/// The calls between two looks at the clock.
const CALLS_PER_CLOCK_LOOK: u64 = 1024;

/// Has the threads call madvise, and returns the number of calls.
///
/// # Errors
///
/// The kernel's.
pub fn run_madv(threads: usize, calls: u64, touch: bool) -> io::Result<u64> {
    let cpus = pin::allowed_cpus()?;
    if threads == 0 || threads > cpus.len() {
        return Err(io::Error::other(format!(
            "{threads} threads on {} CPUs",
            cpus.len()
        )));
    }
    let page = LabMapping::anonymous(PAGE_BYTES)?;
    page.touch_pages();
    let barrier = Barrier::new(threads);
    let (barrier, page) = (&barrier, SharedPage(&page));
    thread::scope(|scope| {
        let started: Vec<_> = cpus
            .iter()
            .take(threads)
            .map(|&cpu| scope.spawn(move || advise_repeatedly(cpu, calls, touch, barrier, page)))
            .collect();
        let mut made = 0;
        for thread in started {
            let done = thread.join();
            made += done.map_err(|_| io::Error::other("a thread panicked"))??;
        }
        Ok(made)
    })
}

/// A page that all threads advise about.
#[derive(Clone, Copy)]
struct SharedPage<'a>(&'a LabMapping);

// SAFETY: threads touch a byte of it by volatile writes of the same value, and advise the kernel about it; nothing is
// read from it.
unsafe impl Send for SharedPage<'_> {}

fn advise_repeatedly(
    cpu: u32,
    calls: u64,
    touch: bool,
    barrier: &Barrier,
    page: SharedPage<'_>,
) -> io::Result<u64> {
    let pinned = pin::pin_self(&[cpu]);
    // All threads wait here before any of them can fail.
    barrier.wait();
    pinned?;
    let page = page.0;
    let until = Instant::now() + MAX_RUN_TIME;
    for call in 0..calls {
        if call % CALLS_PER_CLOCK_LOOK == 0 && Instant::now() > until {
            return Ok(call);
        }
        if touch {
            page.touch_pages();
        }
        page.advise(PAGE_BYTES, libc::MADV_DONTNEED)?;
    }
    Ok(calls)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that every thread makes its calls, and that more threads than CPUs are refused.
    #[test]
    fn all_calls_are_made() {
        let cpus = pin::allowed_cpus().unwrap().len();
        assert_eq!(run_madv(1, 3000, true).unwrap(), 3000);
        assert_eq!(run_madv(cpus, 2000, false).unwrap(), 2000 * cpus as u64);
        assert!(run_madv(cpus + 1, 1, false).is_err());
        assert!(run_madv(0, 1, false).is_err());
    }
}
