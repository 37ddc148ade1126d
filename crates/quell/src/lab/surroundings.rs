//! The host of an experiment: workers of this same program, the probe, and the progress that a user sees.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use quell_event::{Backtraces, Interruption};
use quell_lab::host_api::{ExperimentHost, VictimWatch};
use quell_lab::judge::Judgement;
use quell_lab::round::{MeasuredBlock, Round};
use quell_lab::worker_handle::StopRequested;
use quell_probe::Interruptions;

use super::Progress;
use super::live::Running;
use super::lock::hand_on;
use crate::cli::{GUARD_WORDS, WORKER_WORDS};
use crate::launch::signals;

/// The surroundings of one experiment.
#[derive(Debug)]
pub(crate) struct Around<'a> {
    pub(crate) progress: Progress,
    pub(crate) live: Option<Running<'a>>,
    /// The allocator of the workers, where that is not the default.
    pub(super) allocator: Option<Allocator>,
}

/// Whose malloc and free a worker has.
#[derive(Clone, Debug)]
pub(super) enum Allocator {
    /// The C library's own.
    Own,
    /// That of a library, which is loaded before.
    Preloaded(PathBuf),
}

/// This program again, also where its file has been replaced meanwhile.
pub(super) fn again(words: [&str; 2]) -> Command {
    let mut command = Command::new(Path::new("/proc/self/exe"));
    command.args(words);
    command
}

/// The command that sets the system up.
pub(crate) fn guard() -> Command {
    let mut command = again(GUARD_WORDS);
    hand_on(&mut command);
    command
}

/// A victim or a culprit.
pub(crate) fn worker() -> Command {
    again(WORKER_WORDS)
}

/// Reports a requirement of the probe that this kernel or user lacks, before anything is set up or begun.
pub(super) fn check(victim_cpu: u32) -> anyhow::Result<()> {
    let own = rustix::thread::gettid()
        .as_raw_nonzero()
        .get()
        .cast_unsigned();
    Interruptions::attach(victim_cpu, own, false)?;
    Ok(())
}

impl ExperimentHost for Around<'_> {
    fn worker_command(&self) -> Command {
        let mut command = worker();
        match &self.allocator {
            None => {}
            Some(Allocator::Own) => {
                command.env_remove("LD_PRELOAD");
            }
            Some(Allocator::Preloaded(library)) => {
                command.env("LD_PRELOAD", library);
            }
        }
        command
    }

    fn start_watch(
        &self,
        cpu: u32,
        tid: u32,
        stacks: bool,
    ) -> anyhow::Result<Box<dyn VictimWatch>> {
        Ok(Box::new(Probed(Interruptions::attach(cpu, tid, stacks)?)))
    }

    fn block_done(&self, measured: &MeasuredBlock) {
        if let Some(live) = &self.live {
            live.block(measured);
        }
    }

    fn round_done(&self, rounds: &[Round], look: usize, judgement: Option<&Judgement>) {
        self.progress.round(rounds, look, judgement);
    }

    fn budget_stretched(&self, budget: Duration) {
        self.progress.stretched(budget);
    }

    fn stop_requested(&self) -> StopRequested {
        || signals::interrupted().is_some()
    }
}

struct Probed(Interruptions);

impl VictimWatch for Probed {
    fn take_interruptions(&mut self) -> anyhow::Result<Vec<Interruption>> {
        Ok(self.0.take()?)
    }

    fn lost_records(&mut self) -> anyhow::Result<u64> {
        Ok(self.0.lost()?)
    }

    fn backtraces(&mut self, tgid: u32) -> anyhow::Result<Option<Backtraces>> {
        Ok(self.0.backtraces(tgid)?)
    }

    fn pause(&mut self) {
        self.0.pause();
    }

    fn resume(&mut self) -> anyhow::Result<()> {
        Ok(self.0.resume()?)
    }
}
