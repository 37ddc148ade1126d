//! Counts from before a rule fired: the last looks, bounded, so that a trace comes with the start of the event that began it.

use std::collections::VecDeque;
use std::time::Duration;

use quell_event::{Mechanism, Tally, Text, WatchInterval};
use serde::{Deserialize, Serialize};

/// For each look the dearest culprits, mechanisms of cgroups and stacks are kept, so many of each. 30 looks a second apart
/// with that much are a few megabytes; looks every ten seconds take a tenth.
const MAX_ROWS_PER_LOOK: usize = 200;
/// No more looks are kept, however close they follow each other: of looks of one second a minute, whatever time is to be kept.
const MAX_LOOKS: usize = 60;

/// One count between two moments, ns of CLOCK_MONOTONIC as in the rows of a trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LookBackLine {
    /// Start of the interval.
    pub from_ns: u64,
    /// End of the interval.
    pub to_ns: u64,
    /// The count itself.
    #[serde(flatten)]
    pub count: LookBackCount,
}

/// The kinds of counts, each with its figures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum LookBackCount {
    /// Sums over everything between two looks.
    Look {
        /// Shootdowns.
        shootdowns: u64,
        /// CPUs that were interrupted for them.
        victims: u64,
        /// Time that culprits waited, ns.
        wait_ns: u64,
        /// Time that victims were stalled, ns.
        stall_ns: u64,
        /// The 99 % quantile of the waits, ns.
        wait_p99_ns: u64,
        /// CPU time in memory management, ns, estimated by samples.
        memory_cpu_ns: u64,
        /// Time that threads slept because of it, ns.
        blocked_ns: u64,
        /// Number of lines of the other kinds that were too cheap to be kept.
        left_out: u64,
    },
    /// Shootdowns by cgroup and cause.
    Culprit {
        /// The cgroup, by its path or number.
        #[serde(default)]
        cgroup: Text,
        /// Its id.
        cgroup_id: u64,
        /// The name of a process in it that did so lately.
        comm: Text,
        /// The cause.
        cause: Text,
        /// Number of shootdowns.
        shootdowns: u64,
        /// CPUs that were interrupted.
        victims: u64,
        /// Time that culprits waited, ns.
        wait_ns: u64,
    },
    /// Time by cgroup and mechanism.
    Time {
        /// The cgroup, by its path or number.
        #[serde(default)]
        cgroup: Text,
        /// Its id.
        cgroup_id: u64,
        /// The kernel's work.
        mechanism: Mechanism,
        /// CPU time, ns, estimated by samples.
        cpu_ns: u64,
        /// Number of times that a thread slept.
        sleeps: u64,
        /// Time that threads slept, ns.
        blocked_ns: u64,
    },
    /// CPU time by process, mechanism and stack.
    Code {
        /// The process's number.
        pid: u32,
        /// Its name.
        comm: Text,
        /// The cgroup, by its path or number.
        #[serde(default)]
        cgroup: Text,
        /// Its id.
        cgroup_id: u64,
        /// The kernel's work.
        mechanism: Mechanism,
        /// Number of samples.
        samples: u64,
        /// Time that the samples stand for, ns.
        cpu_ns: u64,
        /// The program's stack, the innermost frame first, before its functions are named.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        addresses: Vec<u64>,
        /// The stack's functions, with their files.
        #[serde(default)]
        frames: Vec<Text>,
    },
}

impl LookBackCount {
    /// The id of its cgroup, and the place for the cgroup's name.
    fn cgroup_slot(&mut self) -> Option<(u64, &mut Text)> {
        match self {
            Self::Look { .. } => None,
            Self::Culprit {
                cgroup_id, cgroup, ..
            }
            | Self::Time {
                cgroup_id, cgroup, ..
            }
            | Self::Code {
                cgroup_id, cgroup, ..
            } => Some((*cgroup_id, cgroup)),
        }
    }
}

/// The counts of the last looks.
#[derive(Debug)]
pub struct LookBack {
    keep_ns: u64,
    looks: VecDeque<Vec<LookBackLine>>,
}

/// Keeps the entries of the highest cost, and returns how many others there were. Each entry comes with its cost, in the unit of
/// its kind: culprits by shootdowns, times of cgroups by ns of CPU and sleep, stacks by samples.
fn keep_dearest(mut lines: Vec<(u64, LookBackCount)>) -> (Vec<LookBackCount>, u64) {
    lines.sort_by_key(|(cost, _)| std::cmp::Reverse(*cost));
    let left_out = lines.len().saturating_sub(MAX_ROWS_PER_LOOK) as u64;
    lines.truncate(MAX_ROWS_PER_LOOK);
    (lines.into_iter().map(|(_, what)| what).collect(), left_out)
}

fn culprit_entries(tally: &Tally) -> Vec<(u64, LookBackCount)> {
    let culprits = tally.culprits.iter().filter(|c| c.counts.shootdowns > 0);
    let line = |c: &quell_event::CulpritTally| LookBackCount::Culprit {
        cgroup: Text::default(),
        cgroup_id: c.cgroup,
        comm: c.comm.as_str().into(),
        cause: c.cause.name().into(),
        shootdowns: c.counts.shootdowns,
        victims: c.counts.victims,
        wait_ns: c.counts.wait_ns,
    };
    culprits.map(|c| (c.counts.shootdowns, line(c))).collect()
}

fn time_entries(watched: &WatchInterval) -> Vec<(u64, LookBackCount)> {
    let line = |r: &quell_event::CgroupCost| LookBackCount::Time {
        cgroup: Text::default(),
        cgroup_id: r.cgroup,
        mechanism: r.mechanism,
        cpu_ns: watched.cpu_ns(r.samples),
        sleeps: r.sleeps,
        blocked_ns: r.blocked_ns,
    };
    let cost = |r: &quell_event::CgroupCost| watched.cpu_ns(r.samples) + r.blocked_ns;
    watched.rows.iter().map(|r| (cost(r), line(r))).collect()
}

fn code_entries(watched: &WatchInterval) -> Vec<(u64, LookBackCount)> {
    let line = |c: &quell_event::CodeCost| LookBackCount::Code {
        pid: c.pid,
        comm: c.comm.clone(),
        cgroup: Text::default(),
        cgroup_id: c.cgroup,
        mechanism: c.mechanism,
        samples: c.samples,
        cpu_ns: watched.cpu_ns(c.samples),
        addresses: c.addresses.clone(),
        frames: Vec::new(),
    };
    watched.code.iter().map(|c| (c.samples, line(c))).collect()
}

impl LookBack {
    /// Keeps looks for this long.
    #[must_use]
    pub fn new(keep: Duration) -> Self {
        Self {
            keep_ns: u64::try_from(keep.as_nanos()).unwrap_or(u64::MAX),
            looks: VecDeque::new(),
        }
    }

    /// Adds the counts between two moments, ns of CLOCK_MONOTONIC, and drops looks that are too old; the look in which the kept
    /// time begins stays. Where there is no account of the time (`watched` is `None`) the look's figures of it are 0.
    pub fn add(
        &mut self,
        from_ns: u64,
        to_ns: u64,
        tally: &Tally,
        watched: Option<&WatchInterval>,
    ) {
        let sum = tally.total_counts();
        let rows = watched.map(|w| w.rows.as_slice()).unwrap_or_default();
        let samples = rows.iter().map(|r| r.samples).sum();
        let (culprits, a) = keep_dearest(culprit_entries(tally));
        let (times, b) = keep_dearest(watched.map_or_else(Vec::new, time_entries));
        let (code, c) = keep_dearest(watched.map_or_else(Vec::new, code_entries));
        let look = LookBackCount::Look {
            shootdowns: sum.shootdowns,
            victims: sum.victims,
            wait_ns: sum.wait_ns,
            stall_ns: tally.victims.iter().map(|v| v.stall_ns).sum(),
            wait_p99_ns: tally.wait.quantile(0.99),
            memory_cpu_ns: watched.map_or(0, |w| w.cpu_ns(samples)),
            blocked_ns: rows.iter().map(|r| r.blocked_ns).sum(),
            left_out: a + b + c,
        };
        let all = [vec![look], culprits, times, code].into_iter().flatten();
        let line = |what| LookBackLine {
            from_ns,
            to_ns,
            count: what,
        };
        self.looks.push_back(all.map(line).collect());
        let oldest = to_ns.saturating_sub(self.keep_ns);
        let is_old =
            |look: &Vec<LookBackLine>| look.first().is_none_or(|line| line.to_ns <= oldest);
        while self.looks.len() > MAX_LOOKS || self.looks.front().is_some_and(is_old) {
            self.looks.pop_front();
        }
    }

    /// The ids of all cgroups that the lines need names for.
    #[must_use]
    pub fn cgroup_ids(&mut self) -> Vec<u64> {
        let lines = self.looks.iter_mut().flatten();
        let ids = lines.filter_map(|line| line.count.cgroup_slot().map(|(id, _)| id));
        let mut ids: Vec<u64> = ids.collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// All lines in the order of time. Cgroups are named, or numbered where the name is not known.
    #[must_use]
    pub fn named_lines(&self, name: impl Fn(u64) -> Option<String>) -> Vec<LookBackLine> {
        let mut lines: Vec<LookBackLine> = self.looks.iter().flatten().cloned().collect();
        for line in &mut lines {
            if let Some((id, cgroup)) = line.count.cgroup_slot() {
                *cgroup = name(id).unwrap_or_else(|| format!("id {id}")).into();
            }
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use quell_event::{Cause, CgroupCost, CodeCost, CulpritTally, ShootdownCounts};

    use super::*;

    const S: u64 = 1_000_000_000;

    fn tally(n: u64) -> Tally {
        let culprit = |cgroup| CulpritTally {
            pid: 0,
            comm: "a".to_owned(),
            cgroup,
            cause: Cause::Munmap,
            detail: None,
            counts: ShootdownCounts {
                shootdowns: cgroup,
                ..ShootdownCounts::default()
            },
        };
        Tally {
            culprits: (1..=n).map(culprit).collect(),
            ..Tally::default()
        }
    }

    fn watched(n: u64) -> WatchInterval {
        let row = |cgroup| CgroupCost {
            cgroup,
            mechanism: Mechanism::Unmap,
            samples: cgroup,
            sleeps: 1,
            blocked_ns: 5,
        };
        let code = |cgroup| CodeCost {
            pid: 1,
            comm: "a".into(),
            cgroup,
            mechanism: Mechanism::Unmap,
            samples: cgroup,
            addresses: vec![cgroup],
        };
        WatchInterval {
            period_ns: 10,
            rows: (1..=n).map(row).collect(),
            code: (1..=n).map(code).collect(),
            ..WatchInterval::default()
        }
    }

    /// Check that what is kept are the last seconds, in order, and that the dearest lines are, with the others counted and
    /// cgroups named.
    #[test]
    fn the_last_seconds_are_kept() {
        let mut back = LookBack::new(Duration::from_secs(30));
        let more = MAX_ROWS_PER_LOOK as u64 + 7;
        for n in 0..10 {
            back.add(
                n * 10 * S,
                (n + 1) * 10 * S,
                &tally(more),
                Some(&watched(more)),
            );
        }
        let lines = back.named_lines(|id| (id == more).then(|| "/a.service".to_owned()));
        let times: Vec<u64> = lines.iter().map(|line| line.from_ns / S).collect();
        assert!(times.is_sorted());
        assert_eq!((times[0], times.last()), (70, Some(&90)));
        assert_eq!(lines.len(), 3 * (1 + 3 * MAX_ROWS_PER_LOOK));
        let LookBackCount::Look {
            shootdowns,
            memory_cpu_ns,
            left_out,
            ..
        } = lines[0].count
        else {
            panic!("{:?}", lines[0]);
        };
        let sum = more * (more + 1) / 2;
        assert_eq!((shootdowns, memory_cpu_ns, left_out), (sum, 10 * sum, 21));
        let LookBackCount::Culprit { cgroup, .. } = &lines[1].count else {
            panic!("{:?}", lines[1]);
        };
        assert_eq!(cgroup, "/a.service");
        let LookBackCount::Culprit { cgroup, .. } = &lines[2].count else {
            panic!("{:?}", lines[2]);
        };
        assert_eq!(cgroup.as_str(), format!("id {}", more - 1));
        assert_eq!(back.cgroup_ids().len(), MAX_ROWS_PER_LOOK);
    }

    /// Check that a line that is written is read as it was.
    #[test]
    fn lines_are_read_as_written() {
        let mut back = LookBack::new(Duration::from_secs(30));
        back.add(1, 2, &tally(2), Some(&watched(2)));
        for line in back.named_lines(|_| None) {
            let text = serde_json::to_string(&line).unwrap();
            assert_eq!(
                serde_json::from_str::<LookBackLine>(&text).unwrap(),
                line,
                "{text}"
            );
        }
    }

    proptest! {
        /// Check that however looks come memory is bounded, and the last one is there.
        #[test]
        fn memory_is_bounded(steps in prop::collection::vec((0..40 * S, 0_u64..300), 1..100)) {
            let mut back = LookBack::new(Duration::from_secs(30));
            let mut now = 0;
            for (step, n) in steps {
                back.add(now, now + step, &tally(n), Some(&watched(n)));
                now += step;
                prop_assert!(back.looks.len() <= MAX_LOOKS);
                prop_assert!(back.looks.iter().all(|look| look.len() <= 1 + 3 * MAX_ROWS_PER_LOOK));
                prop_assert_eq!(back.looks.back().map(|look| look[0].to_ns), Some(now));
            }
        }
    }
}
