//! The rows of a trace, for writers that can fail.

use std::collections::HashMap;

use anyhow::Context as _;
use quell_event::trace::{EventRow, SampleRow, Trace, TraceMeta, TracedStack, WaitRow};

/// Stacks by the number that rows have for them.
pub type Stacks = HashMap<i32, TracedStack>;

/// Progress is reported after this many rows.
const PROGRESS_ROWS: u64 = 1 << 16;

/// The rows of a trace.
pub struct Rows<'a> {
    trace: &'a Trace,
    progress: &'a dyn Fn(u64),
}

impl<'a> Rows<'a> {
    /// The rows of this trace; `progress` is called now and then with the number of rows done.
    #[must_use]
    pub fn new(trace: &'a Trace, progress: &'a dyn Fn(u64)) -> Self {
        Self { trace, progress }
    }

    pub(crate) fn trace(&self) -> &Trace {
        self.trace
    }

    pub(crate) fn meta(&self) -> &TraceMeta {
        self.trace.meta()
    }

    /// Hands over every row. After an error the rest is read, since the reader of a trace can't be stopped, but not handed over.
    pub(crate) fn each_row(
        &self,
        mut each: impl FnMut(&EventRow) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut outcome = Ok(());
        let mut done = 0u64;
        self.trace
            .for_each_row(|row| {
                done += 1;
                if done.is_multiple_of(PROGRESS_ROWS) {
                    (self.progress)(done);
                }
                if outcome.is_ok() {
                    outcome = each(row);
                }
            })
            .context("can't read the rows of the trace")?;
        outcome
    }

    /// Hands over every wait. After an error the rest is read, but not handed over.
    pub(crate) fn each_wait(
        &self,
        mut each: impl FnMut(&WaitRow) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut outcome = Ok(());
        let read = self.trace.for_each_wait(|wait| {
            if outcome.is_ok() {
                outcome = each(wait);
            }
        });
        read.context("can't read the waits of the trace")?;
        outcome
    }

    /// Hands over every sample, in the same way.
    pub(crate) fn each_sample(
        &self,
        mut each: impl FnMut(&SampleRow) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut outcome = Ok(());
        let read = self.trace.for_each_sample(|sample| {
            if outcome.is_ok() {
                outcome = each(sample);
            }
        });
        read.context("can't read the samples of the trace")?;
        outcome
    }

    /// Hands over every shootdown as its rows, which follow each other in a trace, and of which there is at least one.
    pub(crate) fn each_shootdown(
        &self,
        mut each: impl FnMut(&[EventRow]) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut rows: Vec<EventRow> = Vec::new();
        self.each_row(|row| {
            if row.is_first() && !rows.is_empty() {
                each(&rows)?;
                rows.clear();
            }
            rows.push(*row);
            Ok(())
        })?;
        if rows.is_empty() {
            return Ok(());
        }
        each(&rows)
    }
}
