//! The ways to watch a run: a recording to learn from, exact counters to compare, or an account of its time.

use std::path::Path;
use std::time::Duration;

use quell_event::Tally;
use quell_event::account::AccountSummary;
use quell_probe::{Probe, ProbeOptions, Scope, StackResolver, StackShare, TimedShare};

use crate::accountant::Accountant;
use crate::recording::{Recording, STEP};
use crate::subject::Subject;

/// Watches the processes that are added, and all that they fork.
pub(crate) trait RunWatcher {
    /// Adds a process before it runs.
    fn add(&mut self, pid: u32) -> anyhow::Result<()>;
    /// Called once a server is ready and before its load, and never for a command. Counts leave out what came before, and a
    /// recording keeps it.
    fn begin(&mut self) -> anyhow::Result<()>;
    /// Does the work that has come up, and returns the time until there may be more.
    fn step(&mut self) -> anyhow::Result<Duration>;
    /// Ends the watch: the run is over.
    fn end(&mut self) -> anyhow::Result<()>;
}

/// Makes exact counts in the kernel and nothing else, so that quell sleeps while the program runs.
pub(crate) struct CountingWatcher {
    probe: Probe,
    before: Tally,
}

impl CountingWatcher {
    /// Starts to count.
    pub(crate) fn attach() -> anyhow::Result<Self> {
        let options = ProbeOptions {
            scope: Scope::Tree,
            stacks: StackShare::None,
            // Beyond a rate the wait is estimated: timing every shootdown would slow the side that has more of them.
            timed: TimedShare::USUAL_RATE,
            ..ProbeOptions::default()
        };
        Ok(Self {
            probe: Probe::attach(&options)?,
            before: Tally::default(),
        })
    }

    /// The counts between begin and end.
    pub(crate) fn tally_of_run(&mut self) -> anyhow::Result<Tally> {
        Ok(self.probe.tally()?.since(&self.before))
    }
}

impl RunWatcher for CountingWatcher {
    fn add(&mut self, pid: u32) -> anyhow::Result<()> {
        Ok(self.probe.add_process(pid)?)
    }

    fn begin(&mut self) -> anyhow::Result<()> {
        self.before = self.probe.tally()?;
        Ok(())
    }

    fn step(&mut self) -> anyhow::Result<Duration> {
        // No work comes up. After a second the caller moves the clock of the progress line on.
        Ok(Duration::from_secs(1))
    }

    fn end(&mut self) -> anyhow::Result<()> {
        self.probe.detach()?;
        Ok(())
    }
}

/// Makes an account of the time and exact counts, as `quell stat` does.
pub(crate) struct AccountWatcher {
    probe: Probe,
    accountant: Accountant,
    resolver: StackResolver,
    before: Tally,
}

impl AccountWatcher {
    /// Starts to watch; `None` where there can be no account, after a line that says so.
    pub(crate) fn attach() -> anyhow::Result<Option<Self>> {
        let scope = Scope::Tree;
        let probe = Probe::attach(&ProbeOptions {
            scope: scope.clone(),
            stacks: StackShare::None,
            timed: TimedShare::USUAL_RATE,
            unwind: true,
            ..ProbeOptions::default()
        })?;
        let Some(accountant) = Accountant::start(&probe, &scope) else {
            return Ok(None);
        };
        Ok(Some(Self {
            resolver: StackResolver::new(&probe),
            probe,
            accountant,
            before: Tally::default(),
        }))
    }

    /// The account of the time between begin and end.
    pub(crate) fn account_of_run(&mut self) -> anyhow::Result<Option<AccountSummary>> {
        let mut tally = self.probe.tally()?;
        let hits = tally.victims.iter().map(|v| v.hits).sum();
        tally.account = Some(self.accountant.last_account(&mut self.resolver, hits)?);
        Ok(AccountSummary::new(&tally.since(&self.before)))
    }
}

impl RunWatcher for AccountWatcher {
    fn add(&mut self, pid: u32) -> anyhow::Result<()> {
        self.accountant.count_misses_of(&[pid]);
        Ok(self.probe.add_process(pid)?)
    }

    fn begin(&mut self) -> anyhow::Result<()> {
        self.before = self.probe.tally()?;
        // The account has names, by which its rows are found again at the end.
        self.before.account = Some(self.accountant.named_account(&mut self.resolver)?);
        Ok(())
    }

    fn step(&mut self) -> anyhow::Result<Duration> {
        self.accountant.step(&mut self.resolver)?;
        Ok(self.accountant.nap())
    }

    fn end(&mut self) -> anyhow::Result<()> {
        self.accountant.stop(&mut self.resolver)?;
        self.probe.detach()?;
        Ok(())
    }
}

/// Records every shootdown, with its stack, into a trace. It is empty once the recording has ended.
pub(crate) struct RecordingWatcher(Option<Recording>);

impl RecordingWatcher {
    /// Starts to record into `dir`, which must not be there yet.
    pub(crate) fn start(dir: &Path, command: &[std::ffi::OsString]) -> anyhow::Result<Self> {
        let subject = Subject::command(command);
        let options = ProbeOptions {
            scope: Scope::Tree,
            unwind: true,
            ..ProbeOptions::default()
        };
        let recording = Recording::start(dir, false, options, &subject)?;
        Ok(Self(Some(recording)))
    }
}

impl RunWatcher for RecordingWatcher {
    fn add(&mut self, pid: u32) -> anyhow::Result<()> {
        match &mut self.0 {
            Some(recording) => {
                recording.count_misses_of(&[pid]);
                Ok(recording.probe.add_process(pid)?)
            }
            None => Ok(()),
        }
    }

    fn begin(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    fn step(&mut self) -> anyhow::Result<Duration> {
        if let Some(recording) = &mut self.0 {
            recording.step(STEP)?;
        }
        // The recording has waited for records itself, so the caller need not.
        Ok(Duration::ZERO)
    }

    fn end(&mut self) -> anyhow::Result<()> {
        match self.0.take() {
            Some(recording) => recording.finish().map(drop),
            None => Ok(()),
        }
    }
}
