//! Counts for months: the probe that tells cgroups apart, and a second one for CPUs that nobody should disturb.

use std::time::{Duration, Instant};

use quell_agent::totals::Totals;
use quell_event::Tally;
use quell_probe::{Backend, Options, Probe, Scope, Stacks};

/// A table that fills up more quickly than this stays full for a while: to attach anew takes some 300 ms of CPU time.
const OFTEN: Duration = Duration::from_secs(300);

/// A probe, and what it had counted at the last look.
struct Counted {
    probe: Probe,
    before: Tally,
}

impl Counted {
    fn start(options: &Options) -> anyhow::Result<Self> {
        let mut probe = Probe::attach(options)?;
        let before = probe.tally()?;
        Ok(Self { probe, before })
    }

    /// What came since the last look.
    fn interval(&mut self) -> anyhow::Result<Tally> {
        let now = self.probe.tally()?;
        let interval = now.since(&self.before);
        self.before = now;
        Ok(interval)
    }
}

/// What counts.
pub(crate) struct Source {
    all: Counted,
    /// Who shoots at guarded CPUs.
    guard: Option<Counted>,
    pub(crate) guarded: Vec<u32>,
    backend: Option<Backend>,
    since: Instant,
    /// How often the probes were attached anew, since their tables were full.
    pub(crate) renewals: u64,
}

impl Source {
    /// Starts to count.
    ///
    /// # Errors
    ///
    /// A probe can't be loaded.
    pub(crate) fn start(backend: Option<Backend>, guarded: Vec<u32>) -> anyhow::Result<Self> {
        let options = |scope: Scope| Options {
            by_cgroup: scope == Scope::All,
            scope,
            stacks: Stacks::None,
            backend,
            ..Options::default()
        };
        let guard = match guarded.is_empty() {
            true => None,
            false => Some(Counted::start(&options(Scope::Cpus(guarded.clone())))?),
        };
        Ok(Self {
            all: Counted::start(&options(Scope::All))?,
            guard,
            guarded,
            backend,
            since: Instant::now(),
            renewals: 0,
        })
    }

    /// Adds what came since the last look to the totals, and to the counts of guarded CPUs.
    ///
    /// # Errors
    ///
    /// The counts can't be read.
    pub(crate) fn look(&mut self, totals: &mut Totals, hits: &mut Totals) -> anyhow::Result<Tally> {
        let mut next = None;
        if self.is_full()? {
            // without room for more probes the old ones go on: what they can't tell apart is told
            next = Self::start(self.backend, self.guarded.clone()).ok();
            self.since = Instant::now();
        }
        let interval = self.all.interval()?;
        let guard = self.guard.as_mut().map(Counted::interval).transpose()?;
        if let Some(mut next) = next {
            // What came until now the old ones have. What is not counted yet, up to 8 shootdowns of each CPU, is told
            // by nobody; docs/agent.md says so.
            next.all.before = next.all.probe.tally()?;
            if let Some(guard) = &mut next.guard {
                guard.before = guard.probe.tally()?;
            }
            next.renewals = self.renewals + 1;
            *self = next;
        }
        totals.add(&interval);
        if let Some(guard) = guard {
            hits.add(&guard);
        }
        Ok(interval)
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
