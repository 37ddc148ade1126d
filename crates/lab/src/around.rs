//! What an experiment needs of whoever runs it.

use std::process::Command;
use std::time::Duration;

use quell_event::{Backtraces, Interruption};

use crate::experiment::{Measured, Round};
use crate::judge::Judgement;
use crate::process::Stop;

/// What sees all that interrupts the victim: the probe, which the lab knows by this only.
pub trait Watch {
    /// What was seen since the last call.
    ///
    /// # Errors
    ///
    /// If the probe fails.
    fn take(&mut self) -> anyhow::Result<Vec<Interruption>>;
    /// How much it has lost so far.
    ///
    /// # Errors
    ///
    /// If the probe fails.
    fn lost(&mut self) -> anyhow::Result<u64>;
    /// The kernel's functions on both sides of the shootdowns of this process, where stacks are kept.
    ///
    /// # Errors
    ///
    /// If the probe fails.
    fn backtraces(&mut self, tgid: u32) -> anyhow::Result<Option<Backtraces>>;
    /// Takes it away.
    fn pause(&mut self);
    /// Brings it back.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    fn resume(&mut self) -> anyhow::Result<()>;
}

/// What is around an experiment.
pub trait Surroundings {
    /// How to start a worker.
    fn worker(&self) -> Command;
    /// Watches this thread on this CPU, and keeps stacks if asked to.
    ///
    /// # Errors
    ///
    /// If this kernel or user lacks something.
    fn watch(&self, cpu: u32, tid: u32, stacks: bool) -> anyhow::Result<Box<dyn Watch>>;
    /// A block is done, and nothing is measured until this returns.
    fn block(&self, _measured: &Measured) {}
    /// A round is done; when it is looked at next; and what was known when it was last.
    fn round(&self, rounds: &[Round], look: usize, judgement: Option<&Judgement>);
    /// It takes so long, more than was said.
    fn stretched(&self, budget: Duration);
    /// Says, also in the middle of a block, whether somebody wants it to end.
    fn stop(&self) -> Stop;
}
