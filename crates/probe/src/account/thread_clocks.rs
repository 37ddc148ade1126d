//! The clocks of threads that live, which are read while they go on.

use libbpf_rs::{MapCore as _, MapFlags, MapHandle};
use quell_event::{Account, ProcessTime};

use super::layout::{THREAD_READY, THREAD_RUNS, THREAD_SLEEPS, ThreadClock};
use crate::error::{Error, Result};
use crate::layout;

/// Adds a thread's CPU time and its time by state to a process.
pub(super) fn add_thread_time(process: &mut ProcessTime, run_ns: u64, sums: &[u64; 3]) {
    process.run_ns += run_ns;
    process.on_cpu_ns += sums[THREAD_RUNS];
    process.ready_ns += sums[THREAD_READY];
    process.sleep_ns += sums[THREAD_SLEEPS];
}

/// A thread's CPU time since it began, ns, as the kernel counts it: for a running thread, up to its last tick.
fn read_exec_ns(pid: u32, tid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/schedstat")).ok()?;
    text.split_whitespace().next()?.parse().ok()
}

/// Adds the threads that have not ended, each up to `now`. A thread that goes on meanwhile may be read half-way through
/// a change of its state: its time is then off by the time that it spent in the state before.
pub(super) fn add_living_threads(
    account: &mut Account,
    clocks: &MapHandle,
    now: u64,
) -> Result<()> {
    for key in clocks.keys() {
        let value = clocks
            .lookup(&key, MapFlags::ANY)
            .map_err(Error::load("read the clock of a thread"))?;
        // The thread has ended meanwhile, and its record comes.
        let Some(clock) = value.and_then(|bytes| layout::read_pod::<ThreadClock>(&bytes)) else {
            continue;
        };
        let mut sums = clock.sums;
        let lasts = now.saturating_sub(clock.since);
        if let Some(sum) = sums.get_mut(clock.state as usize) {
            *sum += lasts;
        }
        let mut run_ns = clock.exec_last.saturating_sub(clock.exec_first);
        if clock.state as usize == THREAD_RUNS {
            let tid = key.as_slice().try_into().map(u32::from_ne_bytes);
            let read_now = tid.ok().and_then(|tid| read_exec_ns(clock.tgid, tid));
            run_ns = read_now.map_or(run_ns + lasts, |read_now| {
                read_now.saturating_sub(clock.exec_first)
            });
        }
        let known = account.processes.iter_mut().find(|p| p.pid == clock.tgid);
        if let Some(process) = known {
            add_thread_time(process, run_ns, &sums);
            continue;
        }
        let mut process = ProcessTime {
            pid: clock.tgid,
            ..ProcessTime::default()
        };
        add_thread_time(&mut process, run_ns, &sums);
        account.processes.push(process);
    }
    Ok(())
}
