//! Where intervals come from: the probe that counts, and a second one for guarded CPUs.

use std::path::Path;
use std::time::{Duration, Instant};

use quell_event::Account;
use quell_host::cpus;
use quell_probe::{Probe, Scope, StackResolver};

use super::attach::AttachOptions;
use super::sample::{Reading, Sample};
use super::sampler::Sampler;
use super::watcher::Watcher;
use crate::accountant::Accountant;
use crate::clock::own_cpu_ns;

/// A table that fills up more quickly than this stays full for a while: to attach anew takes some 300 ms of CPU time.
const OFTEN: Duration = Duration::from_secs(30);

/// Reads intervals.
pub(crate) struct Source {
    pub(crate) probe: Probe,
    /// Counts only who shoots at guarded CPUs, whatever the scope.
    guard: Option<Probe>,
    guarded: Vec<u32>,
    options: AttachOptions,
    /// When the probes were attached, or could not be attached anew.
    since: Instant,
    /// For a test: the tables are taken for full.
    #[cfg(test)]
    pretend_full: bool,
    last: Reading,
    own_before: u64,
    watcher: Option<Watcher>,
    sampler: Option<Sampler>,
    accountant: Option<Accountant>,
    /// Names the functions of the account.
    resolver: StackResolver,
}

impl Source {
    /// Starts to count. `guarded` are the CPUs that nobody should disturb.
    ///
    /// # Errors
    ///
    /// If a probe can't be loaded.
    pub(crate) fn start(options: AttachOptions, guarded: Vec<u32>) -> anyhow::Result<Self> {
        let own_before = own_cpu_ns();
        let (probe, guard) = options.attach(&guarded)?;
        let accountant = Accountant::start(&probe, &options.scope);
        let resolver = StackResolver::new(&probe);
        let sampler = options.sampler(&probe)?;
        let mut source = Self {
            probe,
            guard,
            guarded,
            options,
            since: Instant::now(),
            #[cfg(test)]
            pretend_full: false,
            last: Reading::default(),
            own_before,
            watcher: None,
            sampler,
            accountant,
            resolver,
        };
        source.last = source.read()?;
        Ok(source)
    }

    /// Reads everything: the counts last, so that where another source takes over nothing comes between.
    fn read(&mut self) -> anyhow::Result<Reading> {
        let account = self.account()?;
        let mut reading = self.counts()?;
        reading.tally.account = account;
        Ok(reading)
    }

    fn counts(&mut self) -> anyhow::Result<Reading> {
        let mut tally = self.probe.tally()?;
        tally.self_ns = own_cpu_ns() - self.own_before;
        Ok(Reading {
            matrix: self.probe.interrupt_matrix(),
            guard: self.guard.as_mut().map(Probe::tally).transpose()?,
            tally,
        })
    }

    /// Where the time went so far. Functions are named, which takes a while.
    fn account(&mut self) -> anyhow::Result<Option<Account>> {
        self.look_at_time()?;
        match &self.accountant {
            Some(accountant) => accountant.named_account(&mut self.resolver).map(Some),
            None => Ok(None),
        }
    }

    /// Begins a new interval now; what came since the last one is shown nowhere.
    ///
    /// # Errors
    ///
    /// If the counts can't be read.
    pub(crate) fn restart(&mut self) -> anyhow::Result<()> {
        // the counts first, which another source may have had until now
        self.last = self.counts()?;
        self.last.tally.account = self.account()?;
        if let Some(sampler) = &mut self.sampler {
            sampler.restart(&self.probe)?;
        }
        if let Some(watcher) = &mut self.watcher {
            watcher.restart()?;
        }
        Ok(())
    }

    /// What came since the last call.
    ///
    /// # Errors
    ///
    /// If the counts can't be read.
    pub(crate) fn sample(&mut self) -> anyhow::Result<Sample> {
        let mut next = None;
        if self.is_full()? {
            next = self.successor().ok();
            // without room for more probes the old ones go on: what they can't tell apart is said
            self.since = Instant::now();
        }
        let now = self.read()?;
        if let Some(next) = &mut next {
            // at once: what comes between the two is shown nowhere, nor is what the old probes had not counted
            // yet, up to 8 shootdowns of each CPU
            next.restart()?;
        }
        let sample = self.until(now)?;
        if let Some(mut next) = next {
            next.watcher = self.watcher.take();
            *self = next;
        }
        Ok(sample)
    }

    /// What came until this reading.
    fn until(&mut self, now: Reading) -> anyhow::Result<Sample> {
        // CPUs come and go
        let online = cpus::online(Path::new("/"))?;
        let mut sample = Sample::between(
            &self.last,
            &now,
            self.probe.backend().name(),
            &online,
            &self.guarded,
        );
        self.last = now;
        if let Some(sampler) = &mut self.sampler {
            sample.regions = Some(sampler.interval(&self.probe, &sample.tally, &sample.summary)?);
        }
        if let Some(watcher) = &mut self.watcher {
            sample.detail = Some(watcher.interval()?);
        }
        Ok(sample)
    }

    /// Someone may watch for weeks, and more processes come and go than can be told apart.
    fn is_full(&self) -> anyhow::Result<bool> {
        #[cfg(test)]
        if self.pretend_full {
            return Ok(true);
        }
        if self.since.elapsed() < OFTEN {
            return Ok(false);
        }
        let guard = self.guard.as_ref().map(Probe::is_nearly_full).transpose()?;
        Ok(guard == Some(true) || self.probe.is_nearly_full()?)
    }

    /// The same with new probes, whose tables are empty, and which count already.
    fn successor(&self) -> anyhow::Result<Self> {
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

    /// What came since the last call until all was taken away: also what is counted late.
    ///
    /// # Errors
    ///
    /// As for [`Self::sample`].
    pub(crate) fn last(&mut self) -> anyhow::Result<Sample> {
        if let Some(accountant) = &mut self.accountant {
            accountant.stop(&mut self.resolver)?;
        }
        self.probe.detach()?;
        if let Some(guard) = &mut self.guard {
            guard.detach()?;
        }
        if let Some(watcher) = &mut self.watcher {
            watcher.stop()?;
        }
        let now = self.read()?;
        self.until(now)
    }

    /// Looks closely at a process that makes so many shootdowns a second, with records and sampled stacks, until [`Self::close`].
    ///
    /// # Errors
    ///
    /// If the probe for it can't be loaded.
    pub(crate) fn open(&mut self, pid: u32, a_second: u64) -> anyhow::Result<()> {
        self.watcher = None;
        let options = AttachOptions {
            scope: Scope::Tree,
            backend: Some(self.probe.backend()),
            ..self.options.clone()
        };
        self.watcher = Some(Watcher::start(pid, a_second, &options)?);
        Ok(())
    }

    /// Takes the close look away, and what it costs.
    pub(crate) fn close(&mut self) {
        self.watcher = None;
    }

    /// Is a process looked at closely? Then [`Self::drain`] is to be called more often.
    pub(crate) fn is_open(&self) -> bool {
        self.watcher.is_some()
    }

    /// Reads the records and samples that have come.
    ///
    /// # Errors
    ///
    /// If they can't be read.
    pub(crate) fn drain(&mut self) -> anyhow::Result<()> {
        if let Some(watcher) = &mut self.watcher {
            watcher.drain()?;
        }
        if let Some(sampler) = &mut self.sampler {
            sampler.drain(&self.probe)?;
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
        let mut source = Source::start(options, Vec::new()).expect("a probe");
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
        let mut add = |sample: &Sample| {
            let known = [Cause::Munmap, Cause::MadviseDontneed, Cause::Mprotect];
            let culprits = sample.tally.culprits.iter();
            let culprits = culprits.filter(|c| known.contains(&c.cause));
            seen += culprits.map(|c| c.counts.shootdowns).sum::<u64>();
            empty += sample.tally.empty_sends;
        };
        let status = loop {
            if let Some(status) = child.try_wait().expect("a status") {
                break status;
            }
            thread::sleep(Duration::from_millis(100));
            add(&source.sample().expect("an interval"));
            renewals += 1;
        };
        assert!(status.success(), "the culprit: {status}");
        add(&source.last().expect("an interval"));
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
