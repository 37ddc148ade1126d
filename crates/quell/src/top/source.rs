//! Where intervals come from: the probe that counts, and a second one for guarded CPUs.

use std::path::Path;

use quell_host::cpus;
use quell_probe::{Backend, Keep, Options, Probe, Scope, Stacks};

use super::detail::Watcher;
use super::sample::{Reading, Sample};
use super::sampler::{RING_BYTES, Sampler};
use crate::clock::own_cpu_ns;

/// Reads intervals.
pub(crate) struct Source {
    pub(crate) probe: Probe,
    /// Counts only who shoots at guarded CPUs, whatever the scope.
    guard: Option<Probe>,
    guarded: Vec<u32>,
    last: Reading,
    own_before: u64,
    watcher: Option<Watcher>,
    sampler: Option<Sampler>,
}

impl Source {
    /// Starts to count. `guarded` are the CPUs that nobody should disturb;
    /// with `ipi` all function calls are counted too.
    ///
    /// # Errors
    ///
    /// If a probe can't be loaded.
    pub(crate) fn start(
        scope: &Scope,
        backend: Option<Backend>,
        guarded: Vec<u32>,
        ipi: bool,
    ) -> anyhow::Result<Self> {
        let own_before = own_cpu_ns();
        let options = |scope| Options {
            scope,
            stacks: Stacks::None,
            backend,
            ..Options::default()
        };
        // which shootdowns hit these CPUs is known only when they are over
        let keep = match scope {
            Scope::Cpus(_) => Keep::Counts,
            _ => Keep::Samples,
        };
        let probe = Probe::attach(&Options {
            ipi,
            keep,
            ring_bytes: RING_BYTES,
            ..options(scope.clone())
        })?;
        let sampling = keep == Keep::Samples;
        let sampler = sampling.then(|| Sampler::start(&probe)).transpose()?;
        let guard = if guarded.is_empty() {
            None
        } else {
            Some(Probe::attach(&options(Scope::Cpus(guarded.clone())))?)
        };
        let mut source = Self {
            probe,
            guard,
            guarded,
            last: Reading::default(),
            own_before,
            watcher: None,
            sampler,
        };
        source.last = source.read()?;
        Ok(source)
    }

    fn read(&mut self) -> anyhow::Result<Reading> {
        let mut tally = self.probe.tally()?;
        tally.self_ns = own_cpu_ns() - self.own_before;
        Ok(Reading {
            matrix: self.probe.matrix(),
            guard: self.guard.as_mut().map(Probe::tally).transpose()?,
            tally,
        })
    }

    /// Begins a new interval now; what came since the last one is shown nowhere.
    ///
    /// # Errors
    ///
    /// If the counts can't be read.
    pub(crate) fn restart(&mut self) -> anyhow::Result<()> {
        self.last = self.read()?;
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
        let now = self.read()?;
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

    /// What came since the last call until all was taken away: also what is counted late.
    ///
    /// # Errors
    ///
    /// As for [`Self::sample`].
    pub(crate) fn last(&mut self) -> anyhow::Result<Sample> {
        self.probe.detach()?;
        if let Some(guard) = &mut self.guard {
            guard.detach()?;
        }
        if let Some(watcher) = &mut self.watcher {
            watcher.stop()?;
        }
        self.sample()
    }

    /// Looks closely at a process that makes so many shootdowns a second, with records and sampled stacks, until [`Self::close`].
    ///
    /// # Errors
    ///
    /// If the probe for it can't be loaded.
    pub(crate) fn open(&mut self, pid: u32, a_second: u64) -> anyhow::Result<()> {
        self.watcher = None;
        self.watcher = Some(Watcher::start(pid, a_second, Some(self.probe.backend()))?);
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
        Ok(())
    }
}
