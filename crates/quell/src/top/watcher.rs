//! The second probe, which looks closely at one process: it sums up records to the tables of that process.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::num::NonZeroU32;
use std::rc::Rc;
use std::time::{Duration, Instant};

use quell_event::trace::EventRow;
use quell_event::{Comm, NO_STACK, Shootdown};
use quell_host::proc::Proc;
use quell_probe::{KeptDetail, Probe, ProbeOptions, ShootdownRecords, StackResolver, StackShare};

use super::attach::AttachOptions;
use super::close_up::{ProcessCloseUp, ThreadShootdowns};
use crate::report::aggregate::Aggregate;
use crate::report::code::Code;
use crate::report::places::Places;

/// The ring holds a tenth of a second of the worst case, and is read more often.
const RECORD_RING_BYTES: u32 = 16 << 20;
/// So many stacks a second are enough to know where shootdowns come from.
const STACKS_A_SECOND: u64 = 1000;
/// The view shows so many stacks.
const MAX_SHOWN_STACKS: usize = 20;
/// The process's mappings may get so old before they are read again.
const MAX_WATCHED_MAPPINGS_AGE: Duration = Duration::from_secs(2);
/// Someone may look for weeks, so regions and stacks are dropped after so long.
const MAX_PLACES_AGE: Duration = Duration::from_secs(300);
/// The system call number of a kernel thread, as in [`Shootdown`].
const KERNEL_THREAD_SYSCALL: i16 = -2;

/// The sums of the records.
struct RecordSums {
    pid: u32,
    every: u32,
    threads: HashMap<u32, (Comm, ThreadShootdowns)>,
    /// Shootdowns with stacks that are not among the places yet.
    taken: Vec<EventRow>,
    /// The places of shootdowns with stacks, since the close look began or was last reset.
    places: Aggregate,
    sampled: u64,
}

impl RecordSums {
    fn add_shootdown(&mut self, s: &Shootdown) {
        // the scope holds the children of the process too
        if s.pid != self.pid {
            return;
        }
        let (comm, thread) = self.threads.entry(s.tid).or_default();
        *comm = s.comm;
        thread.tid = s.tid;
        thread.shootdowns += 1;
        thread.victims += s.victims.len() as u64 + u64::from(s.unseen);
        thread.wait_ns += s.wait_ns;
        let stack = if s.syscall == KERNEL_THREAD_SYSCALL {
            s.kernel_stack
        } else {
            s.user_stack
        };
        if stack == NO_STACK && self.every > 1 {
            return;
        }
        self.sampled += 1;
        self.taken.push(EventRow {
            pid: s.pid,
            tid: s.tid,
            comm: s.comm,
            cause: s.cause,
            start: s.start,
            end: s.end,
            own_mm: s.own_mm,
            user_stack: stack,
            ..EventRow::default()
        });
    }

    /// Adds the shootdowns that have come to the places.
    fn place_shootdowns(&mut self, code: &Code) {
        for row in self.taken.drain(..) {
            self.places.add_row(&row, code.mappings());
        }
    }
}

/// When a process began, in ticks since boot; `None` when it has ended.
fn began_at(pid: u32) -> Option<u64> {
    let stat = Proc::new("/").stat(pid).ok()?;
    (!stat.has_ended()).then_some(stat.start)
}

/// The close look at one process, by a probe of its own.
pub(crate) struct ProcessWatcher {
    pid: u32,
    /// The time when the process began tells it from a later process with the same number.
    start: Option<u64>,
    every: NonZeroU32,
    // this field stands before the probe, whose ring it reads, so that it is dropped first
    records: ShootdownRecords,
    resolver: StackResolver,
    code: Code,
    sums: Rc<RefCell<RecordSums>>,
    probe: Probe,
    began: Instant,
    /// When the places were last reset.
    since: Instant,
    lost: u64,
}

impl ProcessWatcher {
    /// Records a process that made so many shootdowns in a second.
    ///
    /// # Errors
    ///
    /// If the probe can't be loaded.
    pub(crate) fn start(pid: u32, a_second: u64, options: &AttachOptions) -> anyhow::Result<Self> {
        let every = u32::try_from(a_second / STACKS_A_SECOND).unwrap_or(u32::MAX);
        let every = NonZeroU32::new(every).unwrap_or(NonZeroU32::MIN);
        let probe = Probe::attach(&ProbeOptions {
            scope: options.scope.clone(),
            keep: KeptDetail::Records,
            stacks: StackShare::OneIn(every),
            ring_bytes: RECORD_RING_BYTES,
            backend: options.backend,
            unwind: options.unwind,
            ..ProbeOptions::default()
        })?;
        let sums = Rc::new(RefCell::new(RecordSums {
            pid,
            every: every.get(),
            threads: HashMap::new(),
            taken: Vec::new(),
            places: Aggregate::default(),
            sampled: 0,
        }));
        let sink = Rc::clone(&sums);
        let records = ShootdownRecords::new(
            &probe,
            Box::new(move |s| sink.borrow_mut().add_shootdown(s)),
        )?;
        let mut resolver = StackResolver::new(&probe);
        resolver.read_mappings(pid, Duration::ZERO);
        let mut code = Code::new([], []);
        code.add_newer_code(resolver.take_changed_processes(), Vec::new());
        probe.add_process(pid)?;
        Ok(Self {
            pid,
            start: began_at(pid),
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
    pub(crate) fn drain_records(&mut self) -> anyhow::Result<()> {
        self.records.read_records()?;
        self.sums.borrow_mut().place_shootdowns(&self.code);
        Ok(())
    }

    /// Drops the sums of the threads, as a new interval begins.
    ///
    /// # Errors
    ///
    /// If the records can't be read.
    pub(crate) fn restart_interval(&mut self) -> anyhow::Result<()> {
        self.records.read_records()?;
        self.sums.borrow_mut().threads.clear();
        self.began = Instant::now();
        Ok(())
    }

    /// Ends the recording; [`Self::finish_interval`] returns its last part.
    ///
    /// # Errors
    ///
    /// If the last records can't be read.
    pub(crate) fn stop_recording(&mut self) -> anyhow::Result<()> {
        self.probe.detach()?;
        Ok(self.records.finish()?)
    }

    /// The process since the last call.
    ///
    /// # Errors
    ///
    /// If the records can't be read.
    pub(crate) fn finish_interval(&mut self) -> anyhow::Result<ProcessCloseUp> {
        self.records.read_records()?;
        self.resolver
            .read_mappings(self.pid, MAX_WATCHED_MAPPINGS_AGE);
        self.resolver.follow_records()?;
        let mut stacks = self.resolver.resolve_stacks(&self.records.new_stacks());
        self.resolver.name_stacks(&mut stacks);
        let ended = self.start.is_none() || began_at(self.pid) != self.start;
        self.code
            .add_newer_code(self.resolver.take_changed_processes(), stacks);
        let lost = self.probe.tally()?.lost.records;
        let mut sums = self.sums.borrow_mut();
        sums.place_shootdowns(&self.code);
        let mut threads: Vec<ThreadShootdowns> = sums
            .threads
            .drain()
            .map(|(_, (comm, thread))| ThreadShootdowns {
                comm: comm.as_text().into_owned(),
                ..thread
            })
            .collect();
        threads.sort_by_key(|t| (Reverse(t.shootdowns), t.tid));
        if self.since.elapsed() > MAX_PLACES_AGE {
            self.since = Instant::now();
            sums.places = Aggregate::default();
            sums.sampled = 0;
        }
        let now = Instant::now();
        let took = now - std::mem::replace(&mut self.began, now);
        let places = Places::new(&sums.places, &self.code);
        Ok(ProcessCloseUp {
            pid: self.pid,
            threads,
            regions: places.region_rows(),
            stacks: places.stack_rows(MAX_SHOWN_STACKS),
            sampled: sums.sampled,
            one_in: self.every.get(),
            lost: lost - std::mem::replace(&mut self.lost, lost),
            ended,
            duration_ns: u64::try_from(took.as_nanos()).unwrap_or(u64::MAX),
        })
    }
}
