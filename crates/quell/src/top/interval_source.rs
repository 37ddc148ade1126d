//! The source of intervals: the probe that counts, and a second one for guarded CPUs.

use std::path::Path;
use std::time::{Duration, Instant};

use quell_event::Account;
use quell_host::cpus;
use quell_probe::{Probe, Scope, StackResolver};

use super::attach::AttachOptions;
use super::interval::{LiveInterval, LiveReading};
use super::sampler::RegionSampler;
use super::watcher::ProcessWatcher;
use crate::accountant::Accountant;
use crate::clock::own_cpu_ns;

/// Attaching anew takes some 300 ms of CPU time, so a table that fills up more quickly than this stays full for a while.
const MIN_REATTACH_INTERVAL: Duration = Duration::from_secs(30);

/// Reads the intervals of the live view.
pub(crate) struct IntervalSource {
    pub(crate) probe: Probe,
    /// Counts only those who interrupt guarded CPUs, whatever the scope.
    guard: Option<Probe>,
    guarded: Vec<u32>,
    options: AttachOptions,
    /// When the probes were attached, or when attaching anew failed.
    since: Instant,
    /// Lets a test take the tables for full.
    #[cfg(test)]
    pretend_full: bool,
    last: LiveReading,
    own_before: u64,
    watcher: Option<ProcessWatcher>,
    sampler: Option<RegionSampler>,
    accountant: Option<Accountant>,
    /// Names the functions of the account.
    resolver: StackResolver,
}

impl IntervalSource {
    /// Starts to count. `guarded` are the CPUs that nobody should disturb.
    ///
    /// # Errors
    ///
    /// If a probe can't be loaded.
    pub(crate) fn start(options: AttachOptions, guarded: Vec<u32>) -> anyhow::Result<Self> {
        let own_before = own_cpu_ns();
        let (probe, guard) = options.attach_probes(&guarded)?;
        let accountant = Accountant::start(&probe, &options.scope);
        let resolver = StackResolver::new(&probe);
        let sampler = options.start_sampler(&probe)?;
        let mut source = Self {
            probe,
            guard,
            guarded,
            options,
            since: Instant::now(),
            #[cfg(test)]
            pretend_full: false,
            last: LiveReading::default(),
            own_before,
            watcher: None,
            sampler,
            accountant,
            resolver,
        };
        source.last = source.read_all()?;
        Ok(source)
    }

    /// Reads everything. The counts come last, so that nothing is missed where another source takes over.
    fn read_all(&mut self) -> anyhow::Result<LiveReading> {
        let account = self.read_account()?;
        let mut reading = self.read_counts()?;
        reading.tally.account = account;
        Ok(reading)
    }

    fn read_counts(&mut self) -> anyhow::Result<LiveReading> {
        let mut tally = self.probe.tally()?;
        tally.self_ns = own_cpu_ns() - self.own_before;
        Ok(LiveReading {
            matrix: self.probe.interrupt_matrix(),
            guard: self.guard.as_mut().map(Probe::tally).transpose()?,
            tally,
        })
    }

    /// The account of the time so far. Its functions are named, which takes a while.
    fn read_account(&mut self) -> anyhow::Result<Option<Account>> {
        self.look_at_time()?;
        match &self.accountant {
            Some(accountant) => accountant.named_account(&mut self.resolver).map(Some),
            None => Ok(None),
        }
    }

    /// Begins a new interval now; the counts since the last one are shown nowhere.
    ///
    /// # Errors
    ///
    /// If the counts can't be read.
    pub(crate) fn restart_interval(&mut self) -> anyhow::Result<()> {
        // the counts are read first, since another source may have had them until now
        self.last = self.read_counts()?;
        self.last.tally.account = self.read_account()?;
        if let Some(sampler) = &mut self.sampler {
            sampler.restart_interval(&self.probe)?;
        }
        if let Some(watcher) = &mut self.watcher {
            watcher.restart_interval()?;
        }
        Ok(())
    }

    /// The counts since the last call.
    ///
    /// # Errors
    ///
    /// If the counts can't be read.
    pub(crate) fn next_interval(&mut self) -> anyhow::Result<LiveInterval> {
        let mut next = None;
        if self.is_full()? {
            next = self.start_successor().ok();
            // without room for more probes the old ones go on, and the interval says how much they can't tell apart
            self.since = Instant::now();
        }
        let now = self.read_all()?;
        if let Some(next) = &mut next {
            // the new probes start at once: shootdowns between the two are shown nowhere, nor are those that the old probes had
            // not counted yet, up to 8 of each CPU
            next.restart_interval()?;
        }
        let interval = self.interval_until(now)?;
        if let Some(mut next) = next {
            next.watcher = self.watcher.take();
            *self = next;
        }
        Ok(interval)
    }

    /// The interval from the last reading to this one.
    fn interval_until(&mut self, now: LiveReading) -> anyhow::Result<LiveInterval> {
        // CPUs come and go
        let online = cpus::read_online_cpus(Path::new("/"))?;
        let mut interval = LiveInterval::between_readings(
            &self.last,
            &now,
            self.probe.backend().name(),
            &online,
            &self.guarded,
        );
        self.last = now;
        if let Some(sampler) = &mut self.sampler {
            interval.regions =
                Some(sampler.finish_interval(&self.probe, &interval.tally, &interval.summary)?);
        }
        if let Some(watcher) = &mut self.watcher {
            interval.close_up = Some(watcher.finish_interval()?);
        }
        Ok(interval)
    }

    /// Someone may watch for weeks, and more processes come and go than the tables can tell apart.
    fn is_full(&self) -> anyhow::Result<bool> {
        #[cfg(test)]
        if self.pretend_full {
            return Ok(true);
        }
        if self.since.elapsed() < MIN_REATTACH_INTERVAL {
            return Ok(false);
        }
        let guard = self.guard.as_ref().map(Probe::is_nearly_full).transpose()?;
        Ok(guard == Some(true) || self.probe.is_nearly_full()?)
    }

    /// The same source with new probes, whose tables are empty, and which count already.
    fn start_successor(&self) -> anyhow::Result<Self> {
        let mut next = Self::start(self.options.clone(), self.guarded.clone())?;
        if self.options.scope == Scope::Tree {
            next.probe.add_processes_of(&self.probe)?;
        }
        next.own_before = self.own_before;
        #[cfg(test)]
        {
            next.pretend_full = self.pretend_full;
        }
        Ok(next)
    }

    /// Detaches the probes, and returns the counts since the last call with those that came late.
    ///
    /// # Errors
    ///
    /// As for [`Self::next_interval`].
    pub(crate) fn last_interval(&mut self) -> anyhow::Result<LiveInterval> {
        if let Some(accountant) = &mut self.accountant {
            accountant.stop(&mut self.resolver)?;
        }
        self.probe.detach()?;
        if let Some(guard) = &mut self.guard {
            guard.detach()?;
        }
        if let Some(watcher) = &mut self.watcher {
            watcher.stop_recording()?;
        }
        let now = self.read_all()?;
        self.interval_until(now)
    }

    /// Looks closely at a process that makes so many shootdowns a second, by records and sampled stacks, until
    /// [`Self::close_process`].
    ///
    /// # Errors
    ///
    /// If the probe for it can't be loaded.
    pub(crate) fn open_process(&mut self, pid: u32, a_second: u64) -> anyhow::Result<()> {
        self.watcher = None;
        let options = AttachOptions {
            scope: Scope::Tree,
            backend: Some(self.probe.backend()),
            ..self.options.clone()
        };
        self.watcher = Some(ProcessWatcher::start(pid, a_second, &options)?);
        Ok(())
    }

    /// Ends the close look, so that it costs nothing any more.
    pub(crate) fn close_process(&mut self) {
        self.watcher = None;
    }

    /// Is a process looked at closely? Then [`Self::drain_records`] has to be called more often.
    pub(crate) fn is_open(&self) -> bool {
        self.watcher.is_some()
    }

    /// Reads the records and samples that have come.
    ///
    /// # Errors
    ///
    /// If they can't be read.
    pub(crate) fn drain_records(&mut self) -> anyhow::Result<()> {
        if let Some(watcher) = &mut self.watcher {
            watcher.drain_records()?;
        }
        if let Some(sampler) = &mut self.sampler {
            sampler.drain_samples(&self.probe)?;
        }
        self.look_at_time()
    }

    fn look_at_time(&mut self) -> anyhow::Result<()> {
        match &mut self.accountant {
            Some(accountant) => accountant.step(&mut self.resolver),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::thread;

    use quell_event::Cause;

    use super::*;

    /// Check that of a program with known shootdowns hardly any is lost where the probes are attached anew again and
    /// again, nor any counted twice, and that the processes in scope stay so.
    #[test]
    fn probes_take_over() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("SKIPPED probes_take_over: needs root");
            return;
        }
        const COUNT: u64 = 20_000;
        let target = std::env::current_exe().expect("a path");
        let target = target.parent().and_then(Path::parent).expect("a folder");
        let options = AttachOptions {
            scope: Scope::Tree,
            backend: None,
            ipi: false,
            unwind: false,
        };
        let mut source = IntervalSource::start(options, Vec::new()).expect("a probe");
        source.pretend_full = true;
        // not real-time: it may take as long as it takes
        let mut child = Command::new("sh")
            .args(["-c", "read go; \"$0\" \"$1\""])
            .arg(target.join("examples/culprit"))
            .arg(COUNT.to_string())
            .env("QUELL_TEST_DEADLINE", "300")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("a shell");
        source.probe.add_process(child.id()).expect("in scope");
        drop(child.stdin.take());
        let (mut seen, mut empty, mut renewals) = (0, 0, 0);
        let mut add = |interval: &LiveInterval| {
            let known = [Cause::Munmap, Cause::MadviseDontneed, Cause::Mprotect];
            let culprits = interval.tally.culprits.iter();
            let culprits = culprits.filter(|c| known.contains(&c.cause));
            seen += culprits.map(|c| c.counts.shootdowns).sum::<u64>();
            empty += interval.tally.empty_sends;
        };
        let status = loop {
            if let Some(status) = child.try_wait().expect("a status") {
                break status;
            }
            thread::sleep(Duration::from_millis(100));
            add(&source.next_interval().expect("an interval"));
            renewals += 1;
        };
        assert!(status.success(), "the culprit: {status}");
        add(&source.last_interval().expect("an interval"));
        println!(
            "{seen} of {}, {empty} empty sends, {renewals} renewals",
            3 * COUNT
        );
        assert!(renewals > 0, "it was over at once");
        assert!(seen <= 3 * COUNT + 10 * renewals, "{seen}");
        // between two readings; and its peer may be off its CPU
        let missing = (3 * COUNT).saturating_sub(seen + empty);
        assert!(missing <= 200 * renewals, "{missing} missing in {renewals}");
    }
}
