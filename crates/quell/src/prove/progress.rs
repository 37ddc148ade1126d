//! What prove is doing, on standard error: one line that changes on a terminal, one line a pair elsewhere.

use std::cell::RefCell;
use std::io::IsTerminal as _;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// The progress of a number of runs.
pub(crate) struct Progress {
    /// Nothing where standard error is no terminal.
    bar: Option<ProgressBar>,
    /// What was seen of that which is being tried.
    so_far: RefCell<String>,
}

impl Progress {
    /// Of so many runs in all.
    pub(crate) fn new(runs: usize) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self {
                bar: None,
                so_far: RefCell::default(),
            };
        }
        let runs = u64::try_from(runs).unwrap_or(0);
        let bar = ProgressBar::with_draw_target(Some(runs), ProgressDrawTarget::stderr());
        // A template that doesn't parse leaves the default one.
        if let Ok(style) =
            ProgressStyle::with_template("{bar:20} {pos}/{len} runs, {elapsed}  {wide_msg}")
        {
            bar.set_style(style);
        }
        Self {
            bar: Some(bar),
            so_far: RefCell::default(),
        }
    }

    /// There are more to come than was known.
    pub(crate) fn more_runs(&self, more: usize) {
        if let Some(bar) = &self.bar {
            bar.inc_length(u64::try_from(more).unwrap_or(0));
        }
    }

    /// There are fewer to come: something was decided early.
    pub(crate) fn fewer_runs(&self, fewer: usize) {
        if let Some(bar) = &self.bar {
            bar.dec_length(u64::try_from(fewer).unwrap_or(0));
        }
    }

    /// What was seen of that which is being tried; nothing once that is over.
    pub(crate) fn so_far(&self, text: String) {
        if !text.is_empty() {
            self.line(&format!("so far: {text}"));
        }
        self.so_far.replace(text);
    }

    /// A run begins.
    pub(crate) fn begin(&self, what: &str) {
        if let Some(bar) = &self.bar {
            let so_far = self.so_far.borrow();
            bar.set_message(if so_far.is_empty() {
                what.to_owned()
            } else {
                format!("{what}; so far: {so_far}")
            });
            bar.tick();
        }
    }

    /// It goes on: moves the clock on. No thread does that, to leave the machine to the program.
    pub(crate) fn tick(&self) {
        if let Some(bar) = &self.bar {
            bar.tick();
        }
    }

    /// A run is done.
    pub(crate) fn done(&self) {
        if let Some(bar) = &self.bar {
            bar.inc(1);
        }
    }

    /// A line for logs and pipes, where there is no terminal to draw on.
    pub(crate) fn line(&self, text: &str) {
        if self.bar.is_none() {
            say!("quell: {text}");
        }
    }

    /// A line that everyone should see.
    pub(crate) fn say(&self, text: &str) {
        let print = || say!("quell: {text}");
        match &self.bar {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
