//! Counts for months: the probe that tells cgroups apart, and a second one for CPUs that nobody should disturb.

use std::path::Path;
use std::time::{Duration, Instant};

use quell_agent::totals::Totals;
use quell_event::{Tally, Watched};
use quell_host::cpus::{self, Isolation};
use quell_probe::{Backend, MachineWatch, Probe, ProbeOptions, Scope, StackShare, TimedShare};

/// How often is looked whether other CPUs are isolated now: a cpuset's partition can be made at any time.
const SELDOM: Duration = Duration::from_secs(60);
/// A table that fills up more quickly than this stays full for a while: to attach anew takes some 300 ms of CPU time.
const OFTEN: Duration = Duration::from_secs(300);

/// Samples a second of a CPU: a host is watched for months, and in an hour there are more than anybody needs.
const RATE: u64 = 49;

/// What is asked for of the account of the time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeOf {
    /// Sleeps too.
    pub(crate) sleeps: bool,
    /// With the stacks of programs.
    pub(crate) code: bool,
}

/// What came between two looks.
pub(crate) struct Interval {
    pub(crate) tally: Tally,
    /// Where the time went, where that can be told.
    pub(crate) watched: Option<Watched>,
}

/// A probe, and what it had counted at the last look.
struct Counted {
    probe: Probe,
    before: Tally,
    /// Where the time goes, where that is asked for and can be.
    watch: Option<MachineWatch>,
}

impl Counted {
    fn start(options: &ProbeOptions) -> anyhow::Result<Self> {
        let mut probe = Probe::attach(options)?;
        let before = probe.tally()?;
        Ok(Self {
            probe,
            before,
            watch: None,
        })
    }

    /// From now on it is sampled where the time goes. Where that can't be, it is said, and the rest is counted all the same.
    fn with_account(mut self, of: TimeOf) -> Self {
        let period_ns = 1_000_000_000 / RATE;
        match MachineWatch::attach(&self.probe, period_ns, of.sleeps, of.code) {
            Ok(watch) => self.watch = Some(watch),
            Err(err) => say!("quell: no account of the time: {err}"),
        }
        self
    }

    /// Takes over: the counts first, which another had until now.
    fn restart(&mut self) -> anyhow::Result<()> {
        self.before = self.probe.tally()?;
        self.watched().map(drop)
    }

    fn watched(&mut self) -> anyhow::Result<Option<Watched>> {
        if let (Some(watch), Ok(online)) = (&mut self.watch, cpus::online(Path::new("/"))) {
            watch.sample_on(&online);
        }
        Ok(self
            .watch
            .as_mut()
            .map(MachineWatch::take_watched)
            .transpose()?)
    }

    /// What came since the last look.
    fn interval(&mut self) -> anyhow::Result<Interval> {
        // the counts last, so that where another takes over nothing comes between
        let watched = self.watched()?;
        let now = self.probe.tally()?;
        let tally = now.since(&self.before);
        self.before = now;
        Ok(Interval { tally, watched })
    }
}

/// CPUs that nobody should disturb, as they are now.
fn isolated() -> Vec<u32> {
    Isolation::read(Path::new("/")).all()
}

/// What counts.
pub(crate) struct Source {
    all: Counted,
    /// Who shoots at guarded CPUs.
    guard: Option<Counted>,
    pub(crate) guarded: Vec<u32>,
    /// Those that are to be, once they are others.
    isolated: Vec<u32>,
    backend: Option<Backend>,
    time_of: TimeOf,
    since: Instant,
    asked: Instant,
    /// How often the probes were attached anew, since their tables were full.
    pub(crate) renewals: u64,
    /// And how often that failed.
    pub(crate) failed_renewals: u64,
}

impl Source {
    /// Starts to count.
    ///
    /// # Errors
    ///
    /// A probe can't be loaded.
    pub(crate) fn start(backend: Option<Backend>, time_of: TimeOf) -> anyhow::Result<Self> {
        Self::of(backend, time_of, isolated())
    }

    fn of(backend: Option<Backend>, time_of: TimeOf, guarded: Vec<u32>) -> anyhow::Result<Self> {
        let options = |scope: Scope| ProbeOptions {
            by_cgroup: true,
            scope,
            stacks: StackShare::None,
            timed: TimedShare::SPARING_RATE,
            backend,
            ..ProbeOptions::default()
        };
        let guard = match guarded.is_empty() {
            true => None,
            false => Some(Counted::start(&options(Scope::Cpus(guarded.clone())))?),
        };
        Ok(Self {
            all: Counted::start(&options(Scope::All))?.with_account(time_of),
            guard,
            isolated: guarded.clone(),
            guarded,
            backend,
            time_of,
            since: Instant::now(),
            asked: Instant::now(),
            renewals: 0,
            failed_renewals: 0,
        })
    }

    /// Adds what came since the last look, at that time (ns since 1970), to the totals, and to the counts of guarded CPUs.
    ///
    /// # Errors
    ///
    /// The counts can't be read.
    pub(crate) fn look(
        &mut self,
        totals: &mut Totals,
        hits: &mut Totals,
        began_ns: u64,
    ) -> anyhow::Result<Interval> {
        let mut next = None;
        if self.isolated != self.guarded || self.is_full()? {
            // without room for more probes the old ones go on: what they can't tell apart is told
            next = Self::of(self.backend, self.time_of, self.isolated.clone()).ok();
            if next.is_none() {
                self.failed_renewals += 1;
                // tried again when that is asked the next time
                self.isolated = self.guarded.clone();
            }
            self.since = Instant::now();
        }
        let read = Instant::now();
        let interval = self.all.interval()?;
        let guard = self.guard.as_mut().map(Counted::interval).transpose()?;
        if let Some(mut next) = next {
            // What came until the old ones were read they have; what came since, while both were read, nobody: about how
            // many is told.
            next.all.restart()?;
            let gap = u64::try_from(read.elapsed().as_nanos()).unwrap_or(u64::MAX);
            let rate = next.all.before.totals().shootdowns as f64
                / next.all.before.duration_ns.max(1) as f64;
            totals.renewed += (rate * gap as f64).ceil() as u64;
            if let Some(guard) = &mut next.guard {
                guard.before = guard.probe.tally()?;
            }
            next.renewals = self.renewals + 1;
            next.failed_renewals = self.failed_renewals;
            *self = next;
        }
        totals.add(&interval.tally, interval.watched.as_ref(), began_ns);
        if let Some(guard) = guard {
            hits.add(&guard.tally, None, began_ns);
        }
        Ok(interval)
    }

    /// Reads what would find no room if nobody did, between looks that are far apart.
    ///
    /// # Errors
    ///
    /// It can't be read.
    pub(crate) fn drain(&self) -> anyhow::Result<()> {
        Ok(self
            .all
            .watch
            .as_ref()
            .map_or(Ok(()), MachineWatch::read_samples)?)
    }

    /// Whether other CPUs are isolated now than at the last time that this was so: the next look attaches what they need. Asks
    /// the kernel once a minute.
    pub(crate) fn isolation_changed(&mut self) -> bool {
        if self.asked.elapsed() < SELDOM {
            return false;
        }
        self.asked = Instant::now();
        let now = isolated();
        let changed = now != self.isolated;
        self.isolated = now;
        changed
    }

    /// Which CPUs nobody should disturb, for people; empty where there are none.
    pub(crate) fn isolated(&self) -> String {
        if self.isolated.is_empty() {
            return String::new();
        }
        format!("isolated CPUs {}", cpus::text(&self.isolated))
    }

    fn is_full(&self) -> anyhow::Result<bool> {
        if self.since.elapsed() < OFTEN {
            return Ok(false);
        }
        let guard = self
            .guard
            .as_ref()
            .map(|g| g.probe.is_nearly_full())
            .transpose()?;
        Ok(guard == Some(true) || self.all.probe.is_nearly_full()?)
    }

    pub(crate) fn backend(&self) -> &'static str {
        self.all.probe.backend().name()
    }
}
