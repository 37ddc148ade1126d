//! The progress of prove on standard error: one line that changes on a terminal, one line for each pair elsewhere.

use std::cell::RefCell;
use std::io::IsTerminal as _;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// The progress of a number of runs.
pub(crate) struct RunProgress {
    /// It is hidden where standard error is no terminal.
    bar: ProgressBar,
    /// The standing of the race under way.
    so_far: RefCell<String>,
}

impl RunProgress {
    /// Starts with a number of runs.
    pub(crate) fn new(runs: usize) -> Self {
        let runs = u64::try_from(runs).unwrap_or(0);
        let target = if std::io::stderr().is_terminal() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(Some(runs), target);
        // A template that doesn't parse leaves the default one.
        if let Ok(style) =
            ProgressStyle::with_template("{bar:20} {pos}/{len} runs, {elapsed}  {wide_msg}")
        {
            bar.set_style(style);
        }
        Self {
            bar,
            so_far: RefCell::default(),
        }
    }

    /// Adds runs that were not planned before.
    pub(crate) fn more_runs(&self, more: usize) {
        self.bar.inc_length(u64::try_from(more).unwrap_or(0));
    }

    /// Takes runs away that an early decision made needless.
    pub(crate) fn fewer_runs(&self, fewer: usize) {
        self.bar.dec_length(u64::try_from(fewer).unwrap_or(0));
    }

    /// Sets the standing of the race under way; empty once it is over.
    pub(crate) fn so_far(&self, text: String) {
        if !text.is_empty() {
            self.log_line(&format!("so far: {text}"));
        }
        self.so_far.replace(text);
    }

    /// Notes that a run begins.
    pub(crate) fn begin_run(&self, what: &str) {
        let so_far = self.so_far.borrow();
        self.bar.set_message(if so_far.is_empty() {
            what.to_owned()
        } else {
            format!("{what}; so far: {so_far}")
        });
        self.bar.tick();
    }

    /// Moves the clock of the line on. No thread does that, to leave the machine to the program.
    pub(crate) fn tick(&self) {
        self.bar.tick();
    }

    /// Notes that a run is done.
    pub(crate) fn end_run(&self) {
        self.bar.inc(1);
    }

    /// Prints a line for logs and pipes, where there is no terminal to draw on.
    pub(crate) fn log_line(&self, text: &str) {
        if self.bar.is_hidden() {
            say!("quell: {text}");
        }
    }

    /// Prints a line that every reader should see.
    pub(crate) fn say(&self, text: &str) {
        self.bar.suspend(|| say!("quell: {text}"));
    }
}

impl Drop for RunProgress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
