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

use super::ExperimentProgress;
use super::influx_stream::ExperimentStream;
use super::lock::share_lock;
use crate::cli::{GUARD_WORDS, WORKER_WORDS};
use crate::launch::signals;

/// The program around one experiment: what it starts, watches and shows.
#[derive(Debug)]
pub(crate) struct LabHost<'a> {
    pub(crate) progress: ExperimentProgress,
    pub(crate) live: Option<ExperimentStream<'a>>,
    /// The allocator of the workers, where that is not the default.
    pub(super) allocator: Option<WorkerAllocator>,
}

/// The malloc and the free that a worker has.
#[derive(Clone, Debug)]
pub(super) enum WorkerAllocator {
    /// They are the C library's own.
    Own,
    /// They are those of a library, which is loaded before.
    Preloaded(PathBuf),
}

/// The command that starts this program again, also where its file has been replaced meanwhile.
pub(super) fn self_command(words: [&str; 2]) -> Command {
    let mut command = Command::new(Path::new("/proc/self/exe"));
    command.args(words);
    command
}

/// The command that sets the system up.
pub(crate) fn guard_command() -> Command {
    let mut command = self_command(GUARD_WORDS);
    share_lock(&mut command);
    command
}

/// The command that starts a victim or a culprit.
pub(crate) fn worker_command() -> Command {
    self_command(WORKER_WORDS)
}

/// Reports a requirement of the probe that this kernel or user lacks, before anything is set up or begun.
pub(super) fn check_probe(victim_cpu: u32) -> anyhow::Result<()> {
    let own = rustix::thread::gettid()
        .as_raw_nonzero()
        .get()
        .cast_unsigned();
    Interruptions::attach(victim_cpu, own, false)?;
    Ok(())
}

impl ExperimentHost for LabHost<'_> {
    fn worker_command(&self) -> Command {
        let mut command = worker_command();
        match &self.allocator {
            None => {}
            Some(WorkerAllocator::Own) => {
                command.env_remove("LD_PRELOAD");
            }
            Some(WorkerAllocator::Preloaded(library)) => {
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
        Ok(Box::new(ProbeWatch(Interruptions::attach(
            cpu, tid, stacks,
        )?)))
    }

    fn block_done(&self, measured: &MeasuredBlock) {
        if let Some(live) = &self.live {
            live.send_block(measured);
        }
    }

    fn round_done(&self, rounds: &[Round], look: usize, judgement: Option<&Judgement>) {
        self.progress.show_round(rounds, look, judgement);
    }

    fn budget_stretched(&self, budget: Duration) {
        self.progress.show_stretched_budget(budget);
    }

    fn stop_requested(&self) -> StopRequested {
        || signals::first_signal().is_some()
    }
}

struct ProbeWatch(Interruptions);

impl VictimWatch for ProbeWatch {
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
