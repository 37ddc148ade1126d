//! The clocks of threads that live, which are read while they go on.

use libbpf_rs::{MapCore as _, MapFlags, MapHandle};
use quell_event::{Account, ProcessTime};

use super::layout::{THREAD_READY, THREAD_RUNS, THREAD_SLEEPS, ThreadClock};
use super::process_times::{MAX_ACCOUNT_PROCESSES, OTHER_PROCESSES_PID, empty_process_time};
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

/// The row of a process of which no record has come yet, perhaps: then it is new, or, where this snapshot has too many to tell apart,
/// that of all other processes. Its records may still get a row of their own, because the totals count only processes with records.
fn row_of_process(account: &mut Account, pid: u32) -> &mut ProcessTime {
    let processes = &mut account.processes;
    let place_of = |processes: &[ProcessTime], pid| processes.iter().position(|p| p.pid == pid);
    let mut row_pid = pid;
    let mut place = place_of(processes, pid);
    if place.is_none() && processes.len() >= MAX_ACCOUNT_PROCESSES {
        row_pid = OTHER_PROCESSES_PID;
        place = place_of(processes, row_pid);
    }
    let place = place.unwrap_or_else(|| {
        processes.push(empty_process_time(row_pid));
        processes.len() - 1
    });
    &mut processes[place]
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
        add_thread_time(row_of_process(account, clock.tgid), run_ns, &sums);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that living threads make rows of their own up to the bound, and that beyond it they are in the row that is named
    /// after all other processes.
    #[test]
    fn living_processes_beyond_the_bound_share_a_row() {
        let mut account = Account::default();
        let bound = u32::try_from(MAX_ACCOUNT_PROCESSES).unwrap();
        for pid in 1..=bound + 2 {
            row_of_process(&mut account, pid).run_ns += 1;
        }
        row_of_process(&mut account, 1).run_ns += 1;
        assert_eq!(account.processes.len(), MAX_ACCOUNT_PROCESSES + 1);
        assert_eq!(account.processes[0].run_ns, 2);
        let others = &account.processes[MAX_ACCOUNT_PROCESSES];
        assert_eq!((others.pid, others.run_ns), (0, 2));
        assert_eq!(others.comm.as_str(), "(other processes)");
    }
}
