//! The calls that an experiment makes to its host, the program that runs it.

use std::process::Command;
use std::time::Duration;

use quell_event::{Backtraces, Interruption};

use crate::judge::Judgement;
use crate::round::{MeasuredBlock, Round};
use crate::worker_handle::StopRequested;

/// Sees all that interrupts the victim. It stands for the probe, so that the lab does not depend on it.
pub trait VictimWatch {
    /// The interruptions since the last call.
    ///
    /// # Errors
    ///
    /// If the probe fails.
    fn take_interruptions(&mut self) -> anyhow::Result<Vec<Interruption>>;
    /// The number of records that it has lost so far.
    ///
    /// # Errors
    ///
    /// If the probe fails.
    fn lost_records(&mut self) -> anyhow::Result<u64>;
    /// The kernel's functions on both sides of the shootdowns of this process, where stacks are kept.
    ///
    /// # Errors
    ///
    /// If the probe fails.
    fn backtraces(&mut self, tgid: u32) -> anyhow::Result<Option<Backtraces>>;
    /// Detaches it.
    fn pause(&mut self);
    /// Attaches it again.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    fn resume(&mut self) -> anyhow::Result<()>;
}

/// The program that runs an experiment.
pub trait ExperimentHost {
    /// The command that starts a worker.
    fn worker_command(&self) -> Command;
    /// Watches this thread on this CPU, and keeps stacks if asked to.
    ///
    /// # Errors
    ///
    /// If this kernel or user lacks a requirement.
    fn start_watch(&self, cpu: u32, tid: u32, stacks: bool)
    -> anyhow::Result<Box<dyn VictimWatch>>;
    /// Is called after each block; nothing is measured until it returns.
    fn block_done(&self, _measured: &MeasuredBlock) {}
    /// Is called after each round, with the number of rounds at which the lab judges next, and the latest judgement.
    fn round_done(&self, rounds: &[Round], look: usize, judgement: Option<&Judgement>);
    /// Is called when the experiment takes so long, more than its budget.
    fn budget_stretched(&self, budget: Duration);
    /// Says, also in the middle of a block, whether somebody wants it to end.
    fn stop_requested(&self) -> StopRequested;
}
