//! Counts for months: the probe that tells cgroups apart, and a second one for CPUs that nobody should disturb.

use std::path::Path;
use std::time::{Duration, Instant};

use quell_agent::totals::Totals;
use quell_event::{Account, Tally};
use quell_host::cpus::{self, Isolation};
use quell_probe::{AccountOf, Accounting, Backend, Options, Probe, Scope, Stacks, Timed};

/// How often is looked whether other CPUs are isolated now: a cpuset's partition can be made at any time.
const SELDOM: Duration = Duration::from_secs(60);
/// A table that fills up more quickly than this stays full for a while: to attach anew takes some 300 ms of CPU time.
const OFTEN: Duration = Duration::from_secs(300);

/// Samples a second of a CPU: a host is watched for months, and in an hour there are more than anybody needs.
const RATE: u64 = 49;

/// A probe, and what it had counted at the last look.
struct Counted {
    probe: Probe,
    before: Tally,
    /// Where the time goes, where that is asked for and can be.
    accounting: Option<Accounting>,
}

impl Counted {
    fn start(options: &Options) -> anyhow::Result<Self> {
        let mut probe = Probe::attach(options)?;
        let before = probe.tally()?;
        Ok(Self {
            probe,
            before,
            accounting: None,
        })
    }

    /// From now on it is sampled where the time goes. Where that can't be, it is said, and the rest is counted all the same.
    fn with_account(mut self, scope: &Scope) -> Self {
        let period_ns = 1_000_000_000 / RATE;
        match Accounting::attach(&self.probe, scope, period_ns, AccountOf::CpuTime) {
            Ok(accounting) => self.accounting = Some(accounting),
            Err(err) => say!("quell: no account of the time: {err}"),
        }
        self
    }

    /// Reads everything: the counts last, so that where another takes over nothing comes between.
    fn read(&mut self) -> anyhow::Result<Tally> {
        let account = self.account()?;
        let mut tally = self.probe.tally()?;
        tally.account = account;
        Ok(tally)
    }

    /// Takes over: the counts first, which another had until now.
    fn restart(&mut self) -> anyhow::Result<()> {
        self.before = self.probe.tally()?;
        self.before.account = self.account()?;
        Ok(())
    }

    fn account(&mut self) -> anyhow::Result<Option<Account>> {
        let Some(accounting) = &mut self.accounting else {
            return Ok(None);
        };
        if let Ok(online) = cpus::online(Path::new("/")) {
            accounting.sample_on(&online);
        }
        while accounting.drain()? {}
        Ok(Some(accounting.account()?))
    }

    /// What came since the last look.
    fn interval(&mut self) -> anyhow::Result<Tally> {
        let now = self.read()?;
        let interval = now.since(&self.before);
        self.before = now;
        Ok(interval)
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
    pub(crate) fn start(backend: Option<Backend>) -> anyhow::Result<Self> {
        Self::of(backend, isolated())
    }

    fn of(backend: Option<Backend>, guarded: Vec<u32>) -> anyhow::Result<Self> {
        let options = |scope: Scope| Options {
            by_cgroup: true,
            scope,
            stacks: Stacks::None,
            timed: Timed::SPARING,
            backend,
            ..Options::default()
        };
        let guard = match guarded.is_empty() {
            true => None,
            false => Some(Counted::start(&options(Scope::Cpus(guarded.clone())))?),
        };
        Ok(Self {
            all: Counted::start(&options(Scope::All))?.with_account(&Scope::All),
            guard,
            isolated: guarded.clone(),
            guarded,
            backend,
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
    ) -> anyhow::Result<Tally> {
        let mut next = None;
        if self.isolated != self.guarded || self.is_full()? {
            // without room for more probes the old ones go on: what they can't tell apart is told
            next = Self::of(self.backend, self.isolated.clone()).ok();
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
        totals.add(&interval, began_ns);
        if let Some(guard) = guard {
            hits.add(&guard, began_ns);
        }
        Ok(interval)
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
