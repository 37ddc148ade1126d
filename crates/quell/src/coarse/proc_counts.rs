//! Counters in /proc, and their growth.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use quell_host::proc::{Proc, Stat};
use quell_host::{interrupts, vmstat};

/// The processes whose page faults count. Interrupts are counted by CPU, whoever runs there.
pub(crate) enum FaultScope {
    /// All processes.
    All,
    /// These, and all that they start.
    Trees(Vec<u32>),
}

/// Numbers of page faults, without and with a read from disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PageFaults {
    pub(crate) minor: u64,
    pub(crate) major: u64,
}

impl PageFaults {
    fn of_stat(stat: &Stat) -> Self {
        Self {
            minor: stat.minor_faults,
            major: stat.major_faults,
        }
    }

    fn since(self, earlier: Self) -> Self {
        Self {
            minor: self.minor.saturating_sub(earlier.minor),
            major: self.major.saturating_sub(earlier.major),
        }
    }

    pub(crate) fn all_faults(self) -> u64 {
        self.minor + self.major
    }
}

/// CPU time in clock ticks of 10 ms, the unit of the figures that anybody may read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CpuTicks {
    pub(crate) user: u64,
    pub(crate) system: u64,
}

impl CpuTicks {
    fn of_stat(stat: &Stat) -> Self {
        Self {
            user: stat.utime,
            system: stat.stime,
        }
    }

    fn since(self, earlier: Self) -> Self {
        Self {
            user: self.user.saturating_sub(earlier.user),
            system: self.system.saturating_sub(earlier.system),
        }
    }

    fn add_ticks(&mut self, other: Self) {
        self.user += other.user;
        self.system += other.system;
    }
}

/// Times and counts of waits for memory, of all threads of the machine, since boot or between two looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MemoryStalls {
    /// The time in which some thread, or all, waited for memory, in ns (Documentation/accounting/psi.rst); `None` where the
    /// kernel doesn't count it.
    pub(crate) pressure_ns: Option<[u64; 2]>,
    /// The number of times that a thread had to free memory itself.
    pub(crate) reclaims: u64,
    /// The number of times that a thread had to make room for a large page itself.
    pub(crate) compactions: u64,
}

impl MemoryStalls {
    fn read_stalls(root: &Path, vmstat: &HashMap<String, u64>) -> Self {
        let reclaims = vmstat
            .iter()
            .filter(|(name, _)| name.starts_with("allocstall"));
        Self {
            pressure_ns: read_pressure(root),
            reclaims: reclaims.map(|(_, n)| n).sum(),
            compactions: vmstat.get("compact_stall").copied().unwrap_or(0),
        }
    }

    fn since(self, earlier: Self) -> Self {
        let less = |now: [u64; 2], then: [u64; 2]| [0, 1].map(|i| now[i].saturating_sub(then[i]));
        Self {
            pressure_ns: self
                .pressure_ns
                .zip(earlier.pressure_ns)
                .map(|(n, t)| less(n, t)),
            reclaims: self.reclaims.saturating_sub(earlier.reclaims),
            compactions: self.compactions.saturating_sub(earlier.compactions),
        }
    }
}

/// The sums of `/proc/pressure/memory` as [`MemoryStalls::pressure_ns`] has them; in the file they are in µs. `None` where it
/// can't be read, as without CONFIG_PSI.
fn read_pressure(root: &Path) -> Option<[u64; 2]> {
    let text = std::fs::read_to_string(root.join("proc/pressure/memory")).ok()?;
    let total = |kind: &str| {
        let line = text.lines().find_map(|l| l.strip_prefix(kind))?;
        let total = line
            .split_whitespace()
            .find_map(|w| w.strip_prefix("total="))?;
        total.parse::<u64>().ok()?.checked_mul(1000)
    };
    Some([total("some ")?, total("full ")?])
}

/// A thread that can't be mistaken for a later one of the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct ThreadKey {
    pid: u32,
    tid: u32,
    start: u64,
}

/// The figures of a thread.
struct ThreadFigures {
    comm: String,
    first: PageFaults,
    last: PageFaults,
    first_ticks: CpuTicks,
    last_ticks: CpuTicks,
    /// The number of the reading that had it last.
    looks: u64,
}

/// Counters of /proc since a beginning.
pub(crate) struct ProcCounts {
    began: Instant,
    lasted: Duration,
    /// The interrupts for shootdowns by CPU; `None` where the kernel doesn't count them.
    interrupts: Option<Vec<(u32, u64)>>,
    interrupts_now: Option<Vec<(u32, u64)>>,
    vmstat: HashMap<String, u64>,
    vmstat_now: HashMap<String, u64>,
    stalls: MemoryStalls,
    stalls_now: MemoryStalls,
    threads: HashMap<ThreadKey, ThreadFigures>,
    /// The number of readings: a thread that the last one did not find has ended.
    looks: u64,
}

/// The growth of the counters between a beginning and the last reading.
pub(crate) struct ProcSummary {
    pub(crate) lasted: Duration,
    /// Interrupts for shootdowns, by CPU.
    pub(crate) interrupts: Option<Vec<(u32, u64)>>,
    /// All page faults of the machine.
    pub(crate) machine: PageFaults,
    /// Waits for memory, of all threads of the machine.
    pub(crate) stalls: MemoryStalls,
    /// The CPU time of the watched processes, without that of threads after the last reading that found them.
    pub(crate) ticks: CpuTicks,
    /// Page faults by thread with its pid, tid and name, the most first.
    pub(crate) threads: Vec<(u32, u32, String, PageFaults)>,
}

impl ProcCounts {
    /// Starts to count now. A thread that is there counts from now on, and a new one from its start.
    pub(crate) fn start(root: &Path, proc: &Proc, watched: &FaultScope) -> anyhow::Result<Self> {
        let mut counts = Self {
            began: Instant::now(),
            lasted: Duration::ZERO,
            interrupts: None,
            interrupts_now: None,
            vmstat: HashMap::new(),
            vmstat_now: HashMap::new(),
            stalls: MemoryStalls::default(),
            stalls_now: MemoryStalls::default(),
            threads: HashMap::new(),
            looks: 0,
        };
        counts.read_again(root, proc, watched)?;
        counts.start_interval();
        Ok(counts)
    }

    /// Starts a new interval at the last reading, so that nothing is lost between two intervals. Threads that have ended are
    /// forgotten.
    pub(crate) fn start_interval(&mut self) {
        self.began += self.lasted;
        self.lasted = Duration::ZERO;
        self.interrupts.clone_from(&self.interrupts_now);
        self.vmstat.clone_from(&self.vmstat_now);
        self.stalls = self.stalls_now;
        let looks = self.looks;
        self.threads.retain(|_, row| row.looks == looks);
        for row in self.threads.values_mut() {
            row.first = row.last;
            row.first_ticks = row.last_ticks;
        }
    }

    /// Reads all counters again.
    pub(crate) fn read_again(
        &mut self,
        root: &Path,
        proc: &Proc,
        watched: &FaultScope,
    ) -> anyhow::Result<()> {
        self.lasted = self.began.elapsed();
        self.looks += 1;
        self.interrupts_now = interrupts::read_flush_interrupts_by_cpu(root)?;
        self.vmstat_now = vmstat::read_vmstat(root)?;
        self.stalls_now = MemoryStalls::read_stalls(root, &self.vmstat_now);
        let pids = match watched {
            FaultScope::All => proc.list_pids()?,
            FaultScope::Trees(roots) => {
                let mut all = Vec::new();
                for &pid in roots {
                    all.extend(
                        proc.process_tree(pid)
                            .context("looking for the processes to watch")?,
                    );
                }
                all
            }
        };
        let own = std::process::id();
        for pid in pids.into_iter().filter(|&pid| pid != own) {
            // A process that ended meanwhile keeps its last figures.
            for (tid, stat) in proc.thread_stats(pid).unwrap_or_default() {
                let thread = ThreadKey {
                    pid,
                    tid,
                    start: stat.start,
                };
                let last = PageFaults::of_stat(&stat);
                // `first` of 0 is right for a thread that is new since the start, whose counters began at 0. `start` makes the
                // others count from the first reading on.
                let row = self.threads.entry(thread).or_insert(ThreadFigures {
                    comm: String::new(),
                    first: PageFaults::default(),
                    last,
                    first_ticks: CpuTicks::default(),
                    last_ticks: CpuTicks::default(),
                    looks: 0,
                });
                row.last = last;
                row.last_ticks = CpuTicks::of_stat(&stat);
                row.looks = self.looks;
                row.comm = stat.comm;
            }
        }
        Ok(())
    }

    /// The growth of all counters; interrupts only for `cpus`, if they are given.
    pub(crate) fn summary(&self, cpus: Option<&[u32]>) -> ProcSummary {
        let of = |map: &HashMap<String, u64>| {
            let get = |name: &str| map.get(name).copied().unwrap_or(0);
            // The counter pgfault has both kinds (mm/memory.c).
            PageFaults {
                minor: get("pgfault").saturating_sub(get("pgmajfault")),
                major: get("pgmajfault"),
            }
        };
        let mut threads: Vec<_> = self
            .threads
            .iter()
            .map(|(t, row)| (t.pid, t.tid, row.comm.clone(), row.last.since(row.first)))
            .filter(|(.., faults)| faults.all_faults() > 0)
            .collect();
        threads.sort_by_key(|&(pid, tid, _, faults)| {
            (std::cmp::Reverse(faults.all_faults()), pid, tid)
        });
        let grown = |now: &Vec<(u32, u64)>| {
            let before: HashMap<u32, u64> = self.interrupts.iter().flatten().copied().collect();
            // The kernel's counter has 32 bits (irq_cpustat_t), and begins again at 0. A CPU that came meanwhile has none to compare with.
            let growth =
                |now: u64, before: u64| u64::from((now as u32).wrapping_sub(before as u32));
            let grown = now
                .iter()
                .map(|&(cpu, n)| (cpu, before.get(&cpu).map_or(0, |&was| growth(n, was))));
            grown
                .filter(|(cpu, _)| cpus.is_none_or(|list| list.contains(cpu)))
                .collect()
        };
        let mut ticks = CpuTicks::default();
        for row in self.threads.values() {
            ticks.add_ticks(row.last_ticks.since(row.first_ticks));
        }
        ProcSummary {
            stalls: self.stalls_now.since(self.stalls),
            ticks,
            lasted: self.lasted,
            interrupts: self.interrupts_now.as_ref().map(grown),
            machine: of(&self.vmstat_now).since(of(&self.vmstat)),
            threads,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, interrupts: [u64; 2], faults: (u64, u64), threads: &[(u32, u64)]) {
        let at = |name: &str| root.join("proc").join(name);
        std::fs::create_dir_all(at("7/task")).expect("a folder");
        let text = format!(
            "     CPU0 CPU1\nTLB: {} {} TLB shootdowns\n",
            interrupts[0], interrupts[1]
        );
        std::fs::write(at("interrupts"), text).expect("a file");
        let text = format!(
            "pgfault {}\npgmajfault {}\nallocstall_normal {}\nallocstall_movable 2\ncompact_stall 1\n",
            faults.0, faults.1, faults.1
        );
        std::fs::write(at("vmstat"), text).expect("a file");
        std::fs::create_dir_all(at("pressure")).expect("a folder");
        let text = format!(
            "some avg10=0.00 avg60=0.00 avg300=0.00 total={}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n",
            faults.0
        );
        std::fs::write(at("pressure/memory"), text).expect("a file");
        let stat = |id: u32, minor: u64| {
            let (user, system) = (minor / 10, minor / 5);
            format!(
                "{id} (prog) S 1 1 1 0 -1 0 {minor} 0 2 0 {user} {system} 0 0 20 0 3 0 99 0 0\n"
            )
        };
        std::fs::write(at("7/stat"), stat(7, 0)).expect("a file");
        for &(tid, minor) in threads {
            std::fs::create_dir_all(at(&format!("7/task/{tid}"))).expect("a folder");
            std::fs::write(at(&format!("7/task/{tid}/stat")), stat(tid, minor)).expect("a file");
        }
    }

    /// Check that a counter of interrupts which begins again at 0 has grown by what it was short of that, and more.
    #[test]
    fn interrupts_begin_again() {
        let dir = tempfile::tempdir().expect("a folder");
        let (root, proc) = (dir.path(), Proc::new(dir.path()));
        let watched = FaultScope::Trees(vec![7]);
        write(root, [u64::from(u32::MAX) - 5, 20], (100, 5), &[(7, 50)]);
        let mut counts = ProcCounts::start(root, &proc, &watched).expect("a beginning");
        write(root, [4, 20], (100, 5), &[(7, 50)]);
        counts.read_again(root, &proc, &watched).expect("a look");
        assert_eq!(counts.summary(None).interrupts, Some(vec![(0, 10), (1, 0)]));
    }

    /// Check that growth is by CPU and by thread, that a new thread counts from its start, and that one that ended keeps its
    /// count.
    #[test]
    fn growth_is_told() {
        let dir = tempfile::tempdir().expect("a folder");
        let (root, proc) = (dir.path(), Proc::new(dir.path()));
        let watched = FaultScope::Trees(vec![7]);
        write(root, [10, 20], (100, 5), &[(7, 50), (8, 60)]);
        let mut counts = ProcCounts::start(root, &proc, &watched).expect("a beginning");
        write(root, [11, 25], (130, 6), &[(7, 51), (8, 65), (9, 4)]);
        counts.read_again(root, &proc, &watched).expect("a look");
        std::fs::remove_dir_all(root.join("proc/7/task/8")).expect("removed");
        counts.read_again(root, &proc, &watched).expect("a look");

        let seen = counts.summary(None);
        assert_eq!(seen.interrupts, Some(vec![(0, 1), (1, 5)]));
        assert_eq!((seen.machine.minor, seen.machine.major), (29, 1));
        assert_eq!(
            seen.stalls,
            MemoryStalls {
                pressure_ns: Some([30_000, 0]),
                reclaims: 1,
                compactions: 0,
            }
        );
        // of those that were there 5 and 6 to 5 and 6 of user time, and 10 and 12 to 10 and 13 of the system's
        assert_eq!(seen.ticks, CpuTicks { user: 0, system: 1 });
        let rows: Vec<_> = seen
            .threads
            .iter()
            .map(|t| (t.1, t.3.minor, t.3.major))
            .collect();
        assert_eq!(rows, [(9, 4, 2), (8, 5, 0), (7, 1, 0)]);
        assert_eq!(counts.summary(Some(&[1])).interrupts, Some(vec![(1, 5)]));
    }
}
