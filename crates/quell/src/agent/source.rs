//! Counts for months by two probes: one that distinguishes cgroups, and one for CPUs that nobody should disturb.

use std::path::Path;
use std::time::{Duration, Instant};

use quell_agent::totals::HostTotals;
use quell_event::{Tally, WatchInterval};
use quell_host::cpus::{self, Isolation};
use quell_probe::{Backend, MachineWatch, Probe, ProbeOptions, Scope, StackShare, TimedShare};

/// Pause between two checks whether other CPUs are isolated now: a cpuset's partition can be made at any time.
const ISOLATION_CHECK_PAUSE: Duration = Duration::from_secs(60);
/// Tables that fill up more quickly than this stay full for a while: attaching anew takes some 300 ms of CPU time.
const MIN_RENEWAL_PAUSE: Duration = Duration::from_secs(300);

/// Samples a second of a CPU. A host is watched for months, so that even so few add up to more in an hour than anybody needs.
const SAMPLES_PER_SECOND: u64 = 49;

/// The parts of the account of the time that may be left out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AccountOptions {
    /// Whether sleeps are watched too.
    pub(crate) sleeps: bool,
    /// Whether samples have the stacks of programs.
    pub(crate) code: bool,
}

/// The counts between two looks.
pub(crate) struct CountedInterval {
    pub(crate) tally: Tally,
    /// The account of the time, where there is one.
    pub(crate) watched: Option<WatchInterval>,
}

/// A probe, and its counts at the last look.
struct CountingProbe {
    probe: Probe,
    before: Tally,
    /// The account of the time, where it is asked for and possible.
    watch: Option<MachineWatch>,
}

impl CountingProbe {
    fn start(options: &ProbeOptions) -> anyhow::Result<Self> {
        let mut probe = Probe::attach(options)?;
        let before = probe.tally()?;
        Ok(Self {
            probe,
            before,
            watch: None,
        })
    }

    /// Has it sample the time from now on. Where that is impossible a message says so, and the rest is counted all the same.
    fn with_account(mut self, of: AccountOptions) -> Self {
        let period_ns = 1_000_000_000 / SAMPLES_PER_SECOND;
        match MachineWatch::attach(&self.probe, period_ns, of.sleeps, of.code) {
            Ok(watch) => self.watch = Some(watch),
            Err(err) => say!("quell: no account of the time: {err}"),
        }
        self
    }

    /// Begins to count where another probe ends: the earlier counts, samples and sleeps are the other's.
    fn take_over(&mut self) -> anyhow::Result<()> {
        self.before = self.probe.tally()?;
        self.read_account().map(drop)
    }

    /// The account since the last call; `None` where there is none. CPUs that have come online meanwhile are sampled from now on.
    fn read_account(&mut self) -> anyhow::Result<Option<WatchInterval>> {
        if let (Some(watch), Ok(online)) = (&mut self.watch, cpus::read_online_cpus(Path::new("/")))
        {
            watch.sample_on(&online);
        }
        Ok(self
            .watch
            .as_mut()
            .map(MachineWatch::take_watched)
            .transpose()?)
    }

    /// The counts since the last look.
    fn next_interval(&mut self) -> anyhow::Result<CountedInterval> {
        // The counts are read last, so that nothing comes between them and those of a probe that takes over.
        let watched = self.read_account()?;
        let now = self.probe.tally()?;
        let tally = now.since(&self.before);
        self.before = now;
        Ok(CountedInterval { tally, watched })
    }
}

/// CPUs that nobody should disturb, as they are now.
fn isolated_cpus() -> Vec<u32> {
    Isolation::read(Path::new("/")).all_cpus()
}

/// The probes that count, which are attached anew when their tables are full.
pub(crate) struct CountSource {
    all: CountingProbe,
    /// The probe that counts interruptions of guarded CPUs.
    guard: Option<CountingProbe>,
    pub(crate) guarded: Vec<u32>,
    /// The CPUs that were isolated at the last check: where others are guarded, [`Self::add_counts`] attaches a probe for these.
    isolated: Vec<u32>,
    backend: Option<Backend>,
    time_of: AccountOptions,
    since: Instant,
    asked: Instant,
    /// Number of times that the probes were attached anew, since their tables were full.
    pub(crate) renewals: u64,
    /// Number of times that this failed.
    pub(crate) failed_renewals: u64,
}

impl CountSource {
    /// Starts to count.
    ///
    /// # Errors
    ///
    /// A probe can't be loaded.
    pub(crate) fn start(backend: Option<Backend>, time_of: AccountOptions) -> anyhow::Result<Self> {
        Self::guarding(backend, time_of, isolated_cpus())
    }

    /// Starts to count. A second probe counts the interruptions of the guarded CPUs, if there are any.
    fn guarding(
        backend: Option<Backend>,
        time_of: AccountOptions,
        guarded: Vec<u32>,
    ) -> anyhow::Result<Self> {
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
            false => Some(CountingProbe::start(&options(Scope::Cpus(
                guarded.clone(),
            )))?),
        };
        Ok(Self {
            all: CountingProbe::start(&options(Scope::All))?.with_account(time_of),
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

    /// Adds the counts since the last look, which was at `began_ns` (since 1970), to the totals, and those of guarded CPUs to
    /// `hits`. Returns those of all CPUs. Where tables are nearly full, or other CPUs are isolated now, new probes take over.
    ///
    /// # Errors
    ///
    /// The counts can't be read.
    pub(crate) fn add_counts(
        &mut self,
        totals: &mut HostTotals,
        hits: &mut HostTotals,
        began_ns: u64,
    ) -> anyhow::Result<CountedInterval> {
        let mut next = None;
        if self.isolated != self.guarded || self.is_full()? {
            // Without room for more probes the old ones go on, and what they can't tell apart is told as lost.
            next = Self::guarding(self.backend, self.time_of, self.isolated.clone()).ok();
            if next.is_none() {
                self.failed_renewals += 1;
                // The next check of isolated CPUs tries again.
                self.isolated = self.guarded.clone();
            }
            self.since = Instant::now();
        }
        let read = Instant::now();
        let interval = self.all.next_interval()?;
        let guard = self
            .guard
            .as_mut()
            .map(CountingProbe::next_interval)
            .transpose()?;
        if let Some(mut next) = next {
            // The old probes have everything until they were read. Nobody has what came while both were read, so about how many
            // that were is told.
            next.all.take_over()?;
            let gap = u64::try_from(read.elapsed().as_nanos()).unwrap_or(u64::MAX);
            let rate = next.all.before.total_counts().shootdowns as f64
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

    /// Reads samples that would find no room otherwise, between looks that are far apart.
    ///
    /// # Errors
    ///
    /// The samples can't be read.
    pub(crate) fn drain(&self) -> anyhow::Result<()> {
        Ok(self
            .all
            .watch
            .as_ref()
            .map_or(Ok(()), MachineWatch::read_samples)?)
    }

    /// Whether other CPUs are isolated now than at the last check; [`Self::add_counts`] attaches a probe for them. The kernel is
    /// asked once a minute, and in between the answer is no.
    pub(crate) fn isolation_changed(&mut self) -> bool {
        if self.asked.elapsed() < ISOLATION_CHECK_PAUSE {
            return false;
        }
        self.asked = Instant::now();
        let now = isolated_cpus();
        let changed = now != self.isolated;
        self.isolated = now;
        changed
    }

    /// The CPUs that nobody should disturb, as text, where there are any.
    pub(crate) fn isolated_text(&self) -> Option<String> {
        let any = !self.isolated.is_empty();
        any.then(|| format!("isolated CPUs {}", cpus::format_cpu_list(&self.isolated)))
    }

    /// Whether a table is nearly full. For [`MIN_RENEWAL_PAUSE`] after probes were attached, or could not be, the answer is no.
    fn is_full(&self) -> anyhow::Result<bool> {
        if self.since.elapsed() < MIN_RENEWAL_PAUSE {
            return Ok(false);
        }
        let guard = self
            .guard
            .as_ref()
            .map(|g| g.probe.is_nearly_full())
            .transpose()?;
        Ok(guard == Some(true) || self.all.probe.is_nearly_full()?)
    }

    pub(crate) fn backend_name(&self) -> &'static str {
        self.all.probe.backend().name()
    }
}
