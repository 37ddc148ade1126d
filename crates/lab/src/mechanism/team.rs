//! Several culprits at once, in the victim's address space, each on a CPU of its own as far as there are CPUs beside the
//! victim's. Each waits for the victim on its own, and for the others; where they hold mmap_lock meanwhile the others
//! wait for that too. On one CPU they take turns, which the result says.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Barrier};
use std::thread::{self, JoinHandle};

use rustix::process::Pid;
use rustix::thread::gettid;

use super::{Culprit, DEFAULT_MECHANISM, StallMechanism, pages_param};
use crate::memory::{LabMapping, PAGE_BYTES};
use crate::params::{Param, Params};
use crate::pin;
use crate::resources::{ResourceDemand, pages_to_bytes};

const THREADS_PARAM: Param = Param::new("threads", "culprits at once", 4, (1, 256));

const TIMES_PARAM: Param = Param::new(
    "times",
    "how often each does it in an operation",
    8,
    (1, 1024),
);

fn team_hits(params: &Params) -> Option<f64> {
    Some((params.get("threads") * params.get("times")) as f64)
}

/// Each thread has its pages once, and goes through them `times` times.
fn team_demand(params: &Params) -> ResourceDemand {
    let held = pages_to_bytes(params.get("pages").max(1)).saturating_mul(params.get("threads"));
    ResourceDemand {
        work: held.saturating_mul(params.get("times")),
        ..ResourceDemand::of_memory(held)
    }
}

pub(super) const CONVOY_MECHANISM: StallMechanism = StallMechanism {
    name: "convoy",
    about: "threads that mmap, write and munmap pages at once, and wait for each other (mmap_lock)",
    params: &[THREADS_PARAM, TIMES_PARAM, pages_param(1, 8192)],
    expects: team_hits,
    prepare: |params| {
        let bytes = params.size("pages") * PAGE_BYTES;
        Ok(Box::new(Team::start(params, || {
            Ok(move || {
                let mapping = LabMapping::anonymous(bytes)?;
                mapping.touch_pages();
                drop(mapping);
                Ok(())
            })
        })?))
    },
    takes: team_demand,
    ..DEFAULT_MECHANISM
};

pub(super) const CONCURRENT_MECHANISM: StallMechanism = StallMechanism {
    name: "concurrent",
    about: "threads that madvise(MADV_DONTNEED) at once, each a page of its own that it has written",
    params: &[THREADS_PARAM, TIMES_PARAM],
    expects: team_hits,
    keeps_tables: true,
    prepare: |params| {
        Ok(Box::new(Team::start(params, || {
            let page = LabMapping::anonymous(PAGE_BYTES)?;
            Ok(move || {
                page.touch_pages();
                page.advise(PAGE_BYTES, libc::MADV_DONTNEED)
            })
        })?))
    },
    takes: team_demand,
    ..DEFAULT_MECHANISM
};

/// Threads that do the same at once: the culprit's own and others, which sleep between operations.
struct Team {
    shared: Arc<TeamState>,
    own: Box<dyn FnMut() -> io::Result<()> + Send>,
    others: Vec<JoinHandle<()>>,
    /// Of the others.
    tids: Vec<Pid>,
    times: u64,
}

struct TeamState {
    begin: Barrier,
    end: Barrier,
    over: AtomicBool,
    /// The number of the last error, 0 for none.
    failed: AtomicI32,
}

impl Team {
    /// Each thread does the job that `make` makes for it, `times` times an operation.
    fn start<J>(params: &Params, make: impl Fn() -> io::Result<J>) -> io::Result<Self>
    where
        J: FnMut() -> io::Result<()> + Send + 'static,
    {
        let threads = params.size("threads");
        let times = params.get("times");
        let jobs: Vec<J> = (1..threads).map(|_| make()).collect::<io::Result<_>>()?;
        let own = Box::new(make()?);
        let shared = Arc::new(TeamState {
            begin: Barrier::new(threads),
            end: Barrier::new(threads),
            over: AtomicBool::new(false),
            failed: AtomicI32::new(0),
        });
        // No thread waits at a barrier that not all come to: each waits here for its job first, and where one can't
        // be started the others get none.
        let mut sent = Vec::new();
        let mut others = Vec::new();
        let mut tids = Vec::new();
        for _ in 1..threads {
            let (send, receive) = std::sync::mpsc::channel::<J>();
            let (say, told) = std::sync::mpsc::channel();
            let of_all = Arc::clone(&shared);
            // A thread runs where its creator does, since affinity is inherited, until `spread_threads` moves it.
            others.push(thread::Builder::new().spawn(move || {
                if say.send(gettid()).is_err() {
                    return;
                }
                if let Ok(job) = receive.recv() {
                    of_all.repeat_job(job, times);
                }
            })?);
            tids.push(told.recv().map_err(io::Error::other)?);
            sent.push(send);
        }
        for (send, job) in sent.iter().zip(jobs) {
            send.send(job)
                .map_err(|_| io::Error::other("a thread has ended"))?;
        }
        Ok(Self {
            shared,
            own,
            others,
            tids,
            times,
        })
    }
}

impl TeamState {
    fn repeat_job(&self, mut job: impl FnMut() -> io::Result<()>, times: u64) {
        loop {
            self.begin.wait();
            if self.over.load(Ordering::Relaxed) {
                return;
            }
            self.do_job(&mut job, times);
            self.end.wait();
        }
    }

    fn do_job(&self, job: &mut dyn FnMut() -> io::Result<()>, times: u64) {
        for _ in 0..times {
            if let Err(err) = job() {
                let number = err.raw_os_error().unwrap_or(libc::EIO);
                self.failed.store(number, Ordering::Relaxed);
                return;
            }
        }
    }
}

/// A remark where there are fewer CPUs than threads.
fn crowding_note(threads: usize, cpus: usize) -> Option<String> {
    match cpus {
        _ if cpus >= threads => None,
        1 => Some("one culprit CPU: they take turns".to_owned()),
        _ => Some(format!(
            "{threads} culprits on {cpus} CPUs: not all of them run at once"
        )),
    }
}

impl Culprit for Team {
    fn spread_threads(&mut self, cpus: &[u32]) -> io::Result<Option<String>> {
        // The first CPU is where the culprit's own thread runs.
        for (tid, cpu) in self.tids.iter().zip(cpus.iter().cycle().skip(1)) {
            pin::set_affinity(Some(*tid), &[*cpu])?;
        }
        Ok(crowding_note(1 + self.tids.len(), cpus.len()))
    }

    fn run_operation(&mut self) -> io::Result<()> {
        self.shared.begin.wait();
        self.shared.do_job(&mut self.own, self.times);
        self.shared.end.wait();
        match self.shared.failed.swap(0, Ordering::Relaxed) {
            0 => Ok(()),
            number => Err(io::Error::from_raw_os_error(number)),
        }
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        self.shared.begin.wait();
        for thread in self.others.drain(..) {
            // A thread that has panicked has ended too.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::thread::{CpuSet, sched_getaffinity};

    use super::*;

    /// Check that each thread is kept on one of the CPUs, on all of them in turn, and that it is said when they share.
    #[test]
    fn threads_are_spread() {
        let cpus = pin::allowed_cpus().unwrap();
        let said = [("threads".to_owned(), 5)];
        let params = Params::new(CONCURRENT_MECHANISM.params, &said).unwrap();
        let mut team = Team::start(&params, || Ok(|| Ok(()))).unwrap();
        let told = team.spread_threads(&cpus).unwrap();
        assert_eq!(told, crowding_note(5, cpus.len()));
        for (i, tid) in team.tids.iter().enumerate() {
            let set = sched_getaffinity(Some(*tid)).unwrap();
            let on: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|c| set.is_set(*c)).collect();
            assert_eq!(on, [cpus[(i + 1) % cpus.len()] as usize]);
        }
        team.run_operation().unwrap();
        assert!(crowding_note(4, 1).unwrap().contains("take turns"));
        assert!(
            crowding_note(4, 3)
                .unwrap()
                .contains("4 culprits on 3 CPUs")
        );
        assert_eq!(crowding_note(4, 4), None);
    }
}
