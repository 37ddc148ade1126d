//! One process looked at closely: its threads, regions and stacks.
//!
//! The counts tell processes apart, not threads. So a second probe records this process alone, with
//! the stacks of some of its shootdowns, for as long as somebody looks.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::num::NonZeroU32;
use std::rc::Rc;
use std::time::{Duration, Instant};

use quell_event::summary::{RegionRow, StackRow};
use quell_event::trace::Row;
use quell_event::{Comm, NO_STACK, Shootdown, Summary, Tally};
use quell_host::proc::Proc;
use quell_probe::{Keep, Options, Probe, Records, Resolver, Stacks};
use serde::Serialize;

use super::filter::Filter;
use super::grid::{Column, Grid, Id, Key, Line, Mark, passed, seen};
use super::rows::{self, Did};
use super::sample::Sample;
use super::source::How;
use crate::report::aggregate::Aggregate;
use crate::report::code::Code;
use crate::report::places::Places;
use crate::show::units::{count, percent};

/// Enough for a tenth of a second of the worst case, and read more often.
const RING_BYTES: u32 = 16 << 20;
/// Stacks a second that are enough to know where shootdowns come from.
const STACKS_A_SECOND: u64 = 1000;
/// Stacks that are shown.
const STACKS: usize = 20;
/// How old the process's mappings may get.
const MAPS_AGE: Duration = Duration::from_secs(2);
/// Someone may look for weeks: regions and stacks are of the last so long, at most.
const LONGEST: Duration = Duration::from_secs(300);
/// The system call number of a kernel thread, as in [`Shootdown`].
const KERNEL_THREAD: i16 = -2;

/// A thread, in one interval.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Thread {
    pub(crate) tid: u32,
    pub(crate) comm: String,
    pub(crate) shootdowns: u64,
    pub(crate) victims: u64,
    pub(crate) wait_ns: u64,
}

/// What is known of the process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Detail {
    pub(crate) pid: u32,
    /// In the interval, most shootdowns first.
    pub(crate) threads: Vec<Thread>,
    /// Of the shootdowns with stacks since the close look began.
    pub(crate) regions: Vec<RegionRow>,
    /// The same.
    pub(crate) stacks: Vec<StackRow>,
    /// Shootdowns of which stacks were taken since.
    pub(crate) sampled: u64,
    /// Of one in so many stacks are taken.
    pub(crate) one_in: u32,
    /// Records that were lost: the threads' figures are too low by so much.
    pub(crate) lost: u64,
    /// The process has ended.
    pub(crate) ended: bool,
    /// How long the interval was for the close look, ns.
    pub(crate) duration_ns: u64,
}

impl Detail {
    /// The threads.
    pub(crate) fn threads(&self, filter: &Filter) -> Grid {
        let shown = self.threads.iter().filter(|t| filter.name(&t.comm, t.tid));
        let lines: Vec<Line> = shown
            .map(|t| {
                let did = Did {
                    shootdowns: t.shootdowns,
                    victims: t.victims,
                    wait_ns: t.wait_ns,
                    id: t.tid,
                    comm: &t.comm,
                };
                Line {
                    id: Id::Thread(t.tid),
                    cells: did.cells(self.duration_ns),
                    keys: did.keys(),
                    mark: Mark::None,
                }
            })
            .collect();
        let mut note = left_out(lines.len(), self.threads.len(), filter);
        if self.lost > 0 {
            note = format!("{} records lost: too low", count(self.lost));
        }
        Grid {
            title: format!("Threads {}", count(self.threads.len() as u64)),
            note,
            columns: Did::columns("tid"),
            lines,
            sortable: true,
            empty: "no shootdown in this interval",
        }
    }

    /// The causes: exact, from the counts.
    pub(crate) fn causes(&self, sample: &Sample, filter: &Filter) -> Grid {
        let of = |c: &&quell_event::CulpritTally| c.pid == self.pid && filter.cause(c);
        let tally = Tally {
            duration_ns: sample.duration_ns(),
            culprits: sample.tally.culprits.iter().filter(of).cloned().collect(),
            ..Tally::default()
        };
        rows::causes(&Summary::new(&tally, "", 0), String::new())
    }

    /// What lies at the ranges.
    pub(crate) fn regions(&self, filter: &Filter) -> Grid {
        let shown = self.regions.iter().filter(|r| filter.text(&r.region));
        let lines: Vec<Line> = shown
            .enumerate()
            .map(|(i, r)| Line {
                id: Id::Line(i),
                cells: vec![self.share(r.shootdowns), r.region.to_string()],
                keys: vec![Key::Number(r.shootdowns), Key::Text(r.region.to_string())],
                mark: Mark::None,
            })
            .collect();
        Grid {
            title: format!("Regions {}", count(self.regions.len() as u64)),
            note: self.sampling(),
            columns: vec![Column::number("share"), Column::name("region")],
            lines,
            sortable: true,
            empty: "no stack yet",
        }
    }

    /// The stacks, one frame a row.
    pub(crate) fn stacks(&self, filter: &Filter) -> Grid {
        let mut lines = Vec::new();
        for stack in &self.stacks {
            if !stack.frames.iter().any(|f| filter.text(f)) && !filter.text(&stack.cause) {
                continue;
            }
            let head = format!("by {}, innermost first", stack.cause);
            let frames = stack.lines().map(|f| format!("  {f}"));
            for (i, text) in std::iter::once(head).chain(frames).enumerate() {
                let share = match i {
                    0 => self.share(stack.shootdowns),
                    _ => String::new(),
                };
                lines.push(Line {
                    id: Id::Line(lines.len()),
                    cells: vec![share, text],
                    keys: Vec::new(),
                    mark: if i == 0 { Mark::None } else { Mark::Minor },
                });
            }
        }
        Grid {
            title: format!("Stacks {}", count(self.stacks.len() as u64)),
            note: self.sampling(),
            columns: vec![Column::number("share"), Column::name("frames")],
            lines,
            sortable: false,
            empty: "no stack yet",
        }
    }

    fn share(&self, n: u64) -> String {
        percent(n as f64 / self.sampled.max(1) as f64)
    }

    fn sampling(&self) -> String {
        seen(self.sampled, self.one_in.into())
    }
}

fn left_out(shown: usize, all: usize, filter: &Filter) -> String {
    if filter.is_empty() {
        return String::new();
    }
    passed(shown, all)
}

/// What the records add up to.
struct Sums {
    pid: u32,
    every: u32,
    threads: HashMap<u32, (Comm, Thread)>,
    /// Shootdowns with stacks that are not among the places yet.
    taken: Vec<Row>,
    /// Since the beginning, only shootdowns with stacks.
    places: Aggregate,
    sampled: u64,
}

impl Sums {
    fn take(&mut self, s: &Shootdown) {
        // the scope has its children too
        if s.pid != self.pid {
            return;
        }
        let (comm, thread) = self.threads.entry(s.tid).or_default();
        *comm = s.comm;
        thread.tid = s.tid;
        thread.shootdowns += 1;
        thread.victims += s.victims.len() as u64 + u64::from(s.unseen);
        thread.wait_ns += s.wait_ns;
        let stack = if s.syscall == KERNEL_THREAD {
            s.kernel_stack
        } else {
            s.user_stack
        };
        if stack == NO_STACK && self.every > 1 {
            return;
        }
        self.sampled += 1;
        self.taken.push(Row {
            pid: s.pid,
            tid: s.tid,
            comm: s.comm,
            cause: s.cause,
            start: s.start,
            end: s.end,
            own_mm: s.own_mm,
            user_stack: stack,
            ..Row::default()
        });
    }

    /// Puts what has come to its places.
    fn place(&mut self, code: &Code) {
        for row in self.taken.drain(..) {
            self.places.take(&row, code.mappings());
        }
    }
}

/// When a process began, in ticks since boot, while it is there.
fn start(pid: u32) -> Option<u64> {
    let stat = Proc::new("/").stat(pid).ok()?;
    (!stat.has_ended()).then_some(stat.start)
}

/// The second probe.
pub(crate) struct Watcher {
    pid: u32,
    /// When the process began, which tells it from a later one of that number.
    start: Option<u64>,
    every: NonZeroU32,
    // before the probe, whose ring it reads
    records: Records,
    resolver: Resolver,
    code: Code,
    sums: Rc<RefCell<Sums>>,
    probe: Probe,
    began: Instant,
    /// When what is known of places began.
    since: Instant,
    lost: u64,
}

impl Watcher {
    /// Records a process that made so many shootdowns in a second.
    ///
    /// # Errors
    ///
    /// If the probe can't be loaded.
    pub(crate) fn start(pid: u32, a_second: u64, how: &How) -> anyhow::Result<Self> {
        let every = u32::try_from(a_second / STACKS_A_SECOND).unwrap_or(u32::MAX);
        let every = NonZeroU32::new(every).unwrap_or(NonZeroU32::MIN);
        let probe = Probe::attach(&Options {
            scope: how.scope.clone(),
            keep: Keep::Records,
            stacks: Stacks::OneIn(every),
            ring_bytes: RING_BYTES,
            backend: how.backend,
            unwind: how.unwind,
            ..Options::default()
        })?;
        let sums = Rc::new(RefCell::new(Sums {
            pid,
            every: every.get(),
            threads: HashMap::new(),
            taken: Vec::new(),
            places: Aggregate::default(),
            sampled: 0,
        }));
        let sink = Rc::clone(&sums);
        let records = Records::new(&probe, Box::new(move |s| sink.borrow_mut().take(s)))?;
        let mut resolver = Resolver::new(&probe);
        resolver.see(pid, Duration::ZERO);
        let mut code = Code::new([], []);
        code.learn(resolver.changed(), Vec::new());
        probe.add_process(pid)?;
        Ok(Self {
            pid,
            start: start(pid),
            every,
            records,
            resolver,
            code,
            sums,
            probe,
            began: Instant::now(),
            since: Instant::now(),
            lost: 0,
        })
    }

    /// Reads the records that have come, up to a bound.
    ///
    /// # Errors
    ///
    /// If they can't be read.
    pub(crate) fn drain(&mut self) -> anyhow::Result<()> {
        self.records.drain()?;
        self.sums.borrow_mut().place(&self.code);
        Ok(())
    }

    /// Forgets what came, as a new interval begins.
    ///
    /// # Errors
    ///
    /// If the records can't be read.
    pub(crate) fn restart(&mut self) -> anyhow::Result<()> {
        self.records.drain()?;
        self.sums.borrow_mut().threads.clear();
        self.began = Instant::now();
        Ok(())
    }

    /// Ends the recording; [`Self::interval`] has what it was.
    ///
    /// # Errors
    ///
    /// If the last records can't be read.
    pub(crate) fn stop(&mut self) -> anyhow::Result<()> {
        self.probe.detach()?;
        Ok(self.records.finish()?)
    }

    /// What came since the last call.
    ///
    /// # Errors
    ///
    /// If the records can't be read.
    pub(crate) fn interval(&mut self) -> anyhow::Result<Detail> {
        self.records.drain()?;
        self.resolver.see(self.pid, MAPS_AGE);
        self.resolver.follow_records()?;
        let mut stacks = self.resolver.resolve(&self.records.new_stacks());
        self.resolver.name(&mut stacks);
        let ended = self.start.is_none() || start(self.pid) != self.start;
        self.code.learn(self.resolver.changed(), stacks);
        let lost = self.probe.tally()?.lost.records;
        let mut sums = self.sums.borrow_mut();
        sums.place(&self.code);
        let mut threads: Vec<Thread> = sums
            .threads
            .drain()
            .map(|(_, (comm, thread))| Thread {
                comm: comm.text().into_owned(),
                ..thread
            })
            .collect();
        threads.sort_by_key(|t| (Reverse(t.shootdowns), t.tid));
        if self.since.elapsed() > LONGEST {
            self.since = Instant::now();
            sums.places = Aggregate::default();
            sums.sampled = 0;
        }
        let now = Instant::now();
        let took = now - std::mem::replace(&mut self.began, now);
        let places = Places::new(&sums.places, &self.code);
        Ok(Detail {
            pid: self.pid,
            threads,
            regions: places.regions(),
            stacks: places.stacks(STACKS),
            sampled: sums.sampled,
            one_in: self.every.get(),
            lost: lost - std::mem::replace(&mut self.lost, lost),
            ended,
            duration_ns: u64::try_from(took.as_nanos()).unwrap_or(u64::MAX),
        })
    }
}
