//! What was counted before a rule fired: the last looks, bounded, so that a trace has the start of what began it.

use std::collections::VecDeque;
use std::time::Duration;

use quell_event::{Mechanism, Tally, Text, Watched};
use serde::{Deserialize, Serialize};

/// Of each look so many culprits, so many cgroups' mechanisms and so much code are kept, the dearest. 30 looks of a second
/// with that much are a few megabytes; a look every ten seconds takes a tenth.
const ROWS: usize = 200;
/// So many looks are kept.
const LOOKS: usize = 60;

/// A line: what it is of is between two moments, ns of CLOCK_MONOTONIC as in the rows of a trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// From when.
    pub from_ns: u64,
    /// Until when.
    pub to_ns: u64,
    /// What was counted.
    #[serde(flatten)]
    pub what: What,
}

/// What a line tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum What {
    /// All between two looks.
    Look {
        /// Shootdowns.
        shootdowns: u64,
        /// CPUs that were interrupted for them.
        victims: u64,
        /// How long culprits waited, ns.
        wait_ns: u64,
        /// How long victims were stalled, ns.
        stall_ns: u64,
        /// What 99 % of the waits did not exceed, ns.
        wait_p99_ns: u64,
        /// CPU time in memory management, ns: by samples.
        memory_cpu_ns: u64,
        /// Time asleep because of it, ns.
        blocked_ns: u64,
        /// Lines of the other kinds that were not kept: the cheapest.
        left_out: u64,
    },
    /// Shootdowns by cgroup and cause.
    Culprit {
        /// The cgroup, by its path or number.
        #[serde(default)]
        cgroup: Text,
        /// Its id.
        cgroup_id: u64,
        /// A process of it that did so lately.
        comm: Text,
        /// Why.
        cause: Text,
        /// How many.
        shootdowns: u64,
        /// CPUs that were interrupted.
        victims: u64,
        /// How long culprits waited, ns.
        wait_ns: u64,
    },
    /// Time by cgroup and mechanism.
    Time {
        /// The cgroup, by its path or number.
        #[serde(default)]
        cgroup: Text,
        /// Its id.
        cgroup_id: u64,
        /// What the kernel did.
        mechanism: Mechanism,
        /// CPU time, ns: by samples.
        cpu_ns: u64,
        /// How often a thread was made to sleep.
        sleeps: u64,
        /// For how long, ns.
        blocked_ns: u64,
    },
    /// CPU time by process, mechanism and stack.
    Code {
        /// The process.
        pid: u32,
        /// Its name.
        comm: Text,
        /// The cgroup, by its path or number.
        #[serde(default)]
        cgroup: Text,
        /// Its id.
        cgroup_id: u64,
        /// What the kernel did.
        mechanism: Mechanism,
        /// Samples.
        samples: u64,
        /// What they stand for, ns.
        cpu_ns: u64,
        /// The program's stack, the innermost first: before its functions are named.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        addresses: Vec<u64>,
        /// Its functions, with their files.
        #[serde(default)]
        frames: Vec<Text>,
    },
}

impl What {
    /// The id of its cgroup, and where its name goes.
    fn cgroup(&mut self) -> Option<(u64, &mut Text)> {
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

/// The last looks.
#[derive(Debug)]
pub struct LookBack {
    keep_ns: u64,
    looks: VecDeque<Vec<Line>>,
}

/// The dearest lines, and how many there were beyond.
fn dearest(mut lines: Vec<(u64, What)>) -> (Vec<What>, u64) {
    lines.sort_by_key(|(cost, _)| std::cmp::Reverse(*cost));
    let left_out = lines.len().saturating_sub(ROWS) as u64;
    lines.truncate(ROWS);
    (lines.into_iter().map(|(_, what)| what).collect(), left_out)
}

fn culprits(tally: &Tally) -> Vec<(u64, What)> {
    let culprits = tally.culprits.iter().filter(|c| c.counts.shootdowns > 0);
    let line = |c: &quell_event::CulpritTally| What::Culprit {
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

fn times(watched: &Watched) -> Vec<(u64, What)> {
    let line = |r: &quell_event::WatchedRow| What::Time {
        cgroup: Text::default(),
        cgroup_id: r.cgroup,
        mechanism: r.mechanism,
        cpu_ns: watched.cpu_ns(r.samples),
        sleeps: r.sleeps,
        blocked_ns: r.blocked_ns,
    };
    let cost = |r: &quell_event::WatchedRow| watched.cpu_ns(r.samples) + r.blocked_ns;
    watched.rows.iter().map(|r| (cost(r), line(r))).collect()
}

fn code(watched: &Watched) -> Vec<(u64, What)> {
    let line = |c: &quell_event::WatchedCode| What::Code {
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
    /// Keeps what is not older.
    #[must_use]
    pub fn new(keep: Duration) -> Self {
        Self {
            keep_ns: u64::try_from(keep.as_nanos()).unwrap_or(u64::MAX),
            looks: VecDeque::new(),
        }
    }

    /// Keeps what came between two moments, and lets go of what is too old then: the look in which that time begins stays.
    pub fn add(&mut self, from_ns: u64, to_ns: u64, tally: &Tally, watched: Option<&Watched>) {
        let sum = tally.totals();
        let rows = watched.map(|w| w.rows.as_slice()).unwrap_or_default();
        let samples = rows.iter().map(|r| r.samples).sum();
        let (culprits, a) = dearest(culprits(tally));
        let (times, b) = dearest(watched.map_or_else(Vec::new, times));
        let (code, c) = dearest(watched.map_or_else(Vec::new, code));
        let look = What::Look {
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
        let line = |what| Line {
            from_ns,
            to_ns,
            what,
        };
        self.looks.push_back(all.map(line).collect());
        let oldest = to_ns.saturating_sub(self.keep_ns);
        let is_old = |look: &Vec<Line>| look.first().is_none_or(|line| line.to_ns <= oldest);
        while self.looks.len() > LOOKS || self.looks.front().is_some_and(is_old) {
            self.looks.pop_front();
        }
    }

    /// The cgroups that there are names for.
    #[must_use]
    pub fn cgroups(&mut self) -> Vec<u64> {
        let lines = self.looks.iter_mut().flatten();
        let ids = lines.filter_map(|line| line.what.cgroup().map(|(id, _)| id));
        let mut ids: Vec<u64> = ids.collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// All that is kept, in the order of time, with cgroups by their names; one that has none by its number.
    #[must_use]
    pub fn lines(&self, name: impl Fn(u64) -> Option<String>) -> Vec<Line> {
        let mut lines: Vec<Line> = self.looks.iter().flatten().cloned().collect();
        for line in &mut lines {
            if let Some((id, cgroup)) = line.what.cgroup() {
                *cgroup = name(id).unwrap_or_else(|| format!("id {id}")).into();
            }
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use quell_event::{Cause, Counts, CulpritTally, WatchedCode, WatchedRow};

    use super::*;

    const S: u64 = 1_000_000_000;

    fn tally(n: u64) -> Tally {
        let culprit = |cgroup| CulpritTally {
            pid: 0,
            comm: "a".to_owned(),
            cgroup,
            cause: Cause::Munmap,
            detail: None,
            counts: Counts {
                shootdowns: cgroup,
                ..Counts::default()
            },
        };
        Tally {
            culprits: (1..=n).map(culprit).collect(),
            ..Tally::default()
        }
    }

    fn watched(n: u64) -> Watched {
        let row = |cgroup| WatchedRow {
            cgroup,
            mechanism: Mechanism::Unmap,
            samples: cgroup,
            sleeps: 1,
            blocked_ns: 5,
        };
        let code = |cgroup| WatchedCode {
            pid: 1,
            comm: "a".into(),
            cgroup,
            mechanism: Mechanism::Unmap,
            samples: cgroup,
            addresses: vec![cgroup],
        };
        Watched {
            period_ns: 10,
            rows: (1..=n).map(row).collect(),
            code: (1..=n).map(code).collect(),
            ..Watched::default()
        }
    }

    /// Check that what is kept are the last seconds, in order, and that the dearest lines are, with the others counted and
    /// cgroups named.
    #[test]
    fn the_last_seconds_are_kept() {
        let mut back = LookBack::new(Duration::from_secs(30));
        let more = ROWS as u64 + 7;
        for n in 0..10 {
            back.add(
                n * 10 * S,
                (n + 1) * 10 * S,
                &tally(more),
                Some(&watched(more)),
            );
        }
        let lines = back.lines(|id| (id == more).then(|| "/a.service".to_owned()));
        let times: Vec<u64> = lines.iter().map(|line| line.from_ns / S).collect();
        assert!(times.is_sorted());
        assert_eq!((times[0], times.last()), (70, Some(&90)));
        assert_eq!(lines.len(), 3 * (1 + 3 * ROWS));
        let What::Look {
            shootdowns,
            memory_cpu_ns,
            left_out,
            ..
        } = lines[0].what
        else {
            panic!("{:?}", lines[0]);
        };
        let sum = more * (more + 1) / 2;
        assert_eq!((shootdowns, memory_cpu_ns, left_out), (sum, 10 * sum, 21));
        let What::Culprit { cgroup, .. } = &lines[1].what else {
            panic!("{:?}", lines[1]);
        };
        assert_eq!(cgroup, "/a.service");
        let What::Culprit { cgroup, .. } = &lines[2].what else {
            panic!("{:?}", lines[2]);
        };
        assert_eq!(cgroup.as_str(), format!("id {}", more - 1));
        assert_eq!(back.cgroups().len(), ROWS);
    }

    /// Check that a line that is written is read as it was.
    #[test]
    fn lines_are_read_as_written() {
        let mut back = LookBack::new(Duration::from_secs(30));
        back.add(1, 2, &tally(2), Some(&watched(2)));
        for line in back.lines(|_| None) {
            let text = serde_json::to_string(&line).unwrap();
            assert_eq!(serde_json::from_str::<Line>(&text).unwrap(), line, "{text}");
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
                prop_assert!(back.looks.len() <= LOOKS);
                prop_assert!(back.looks.iter().all(|look| look.len() <= 1 + 3 * ROWS));
                prop_assert_eq!(back.looks.back().map(|look| look[0].to_ns), Some(now));
            }
        }
    }
}
