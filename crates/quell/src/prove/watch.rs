//! The two ways in which a run is watched: recorded, to find out, or counted, to compare.

use std::path::Path;
use std::time::Duration;

use quell_event::Tally;
use quell_probe::{Options, Probe, Scope, Stacks, Timed};

use crate::recording::{Recording, STEP};
use crate::subject::Subject;

/// Watches the processes that it is told of, and all that they fork.
pub(crate) trait Watcher {
    /// Takes a process in.
    fn add(&mut self, pid: u32) -> anyhow::Result<()>;
    /// What was counted before this does not belong to the run: a server that got ready.
    fn begin(&mut self) -> anyhow::Result<()>;
    /// Does what there is to do, and says how long may be slept until there is more.
    fn step(&mut self) -> anyhow::Result<Duration>;
    /// The run is over.
    fn end(&mut self) -> anyhow::Result<()>;
}

/// Exact counts in the kernel, and nothing else: quell sleeps while the program runs.
pub(crate) struct Counting {
    probe: Probe,
    before: Tally,
}

impl Counting {
    /// Starts to count.
    pub(crate) fn attach() -> anyhow::Result<Self> {
        let options = Options {
            scope: Scope::Tree,
            stacks: Stacks::None,
            // The wait of very many is estimated: to time all would slow down the runs that shoot more.
            timed: Timed::USUAL,
            ..Options::default()
        };
        Ok(Self {
            probe: Probe::attach(&options)?,
            before: Tally::default(),
        })
    }

    /// What was counted between begin and end.
    pub(crate) fn tally(&mut self) -> anyhow::Result<Tally> {
        Ok(self.probe.tally()?.since(&self.before))
    }
}

impl Watcher for Counting {
    fn add(&mut self, pid: u32) -> anyhow::Result<()> {
        Ok(self.probe.add_process(pid)?)
    }

    fn begin(&mut self) -> anyhow::Result<()> {
        self.before = self.probe.tally()?;
        Ok(())
    }

    fn step(&mut self) -> anyhow::Result<Duration> {
        Ok(Duration::from_secs(1))
    }

    fn end(&mut self) -> anyhow::Result<()> {
        self.probe.detach()?;
        Ok(())
    }
}

/// Every shootdown, with its stack, into a trace.
pub(crate) struct Recorder(Option<Recording>);

impl Recorder {
    /// Starts to record into `dir`, which must not be there yet.
    pub(crate) fn start(dir: &Path, command: &[std::ffi::OsString]) -> anyhow::Result<Self> {
        let subject = Subject::command(command);
        let options = Options {
            scope: Scope::Tree,
            unwind: true,
            ..Options::default()
        };
        let recording = Recording::start(dir, false, options, &subject)?;
        Ok(Self(Some(recording)))
    }
}

impl Watcher for Recorder {
    fn add(&mut self, pid: u32) -> anyhow::Result<()> {
        match &self.0 {
            Some(recording) => Ok(recording.probe.add_process(pid)?),
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
        Ok(Duration::ZERO)
    }

    fn end(&mut self) -> anyhow::Result<()> {
        match self.0.take() {
            Some(recording) => recording.finish().map(drop),
            None => Ok(()),
        }
    }
}
