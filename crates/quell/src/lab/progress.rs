//! The progress of an experiment, on standard error.

use std::cell::Cell;
use std::io::{self, IsTerminal as _};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use quell_lab::judge::Judgement;
use quell_lab::round::Round;

/// A bar on a terminal; elsewhere a line when an experiment begins.
#[derive(Debug)]
pub(crate) struct ExperimentProgress {
    bar: Option<ProgressBar>,
    began: Instant,
    budget: Cell<Duration>,
}

impl ExperimentProgress {
    pub(crate) fn new(what: &str, budget: Duration) -> Self {
        let bar = if io::stderr().is_terminal() {
            let bar = ProgressBar::with_draw_target(Some(1000), ProgressDrawTarget::stderr());
            // A template that doesn't parse leaves the default one.
            if let Ok(style) = ProgressStyle::with_template("{prefix} {bar:20} {wide_msg}") {
                bar.set_style(style);
            }
            bar.set_prefix(what.to_owned());
            bar.tick();
            Some(bar)
        } else {
            say!("quell: {what}, at most {} s", budget.as_secs());
            None
        };
        Self {
            bar,
            began: Instant::now(),
            budget: Cell::new(budget),
        }
    }

    /// Shows that a round is done. No thread moves the bar, to leave the machine to the experiment.
    pub(crate) fn show_round(&self, rounds: &[Round], look: usize, judgement: Option<&Judgement>) {
        let known = judgement.map_or_else(String::new, |j| {
            format!(", {:+.0} ppm so far", j.real.stall_ppm.difference)
        });
        let rounds = rounds.len();
        self.show_progress(format!("round {rounds} of {look}{known}"));
    }

    /// Shows that it takes longer than was said.
    pub(crate) fn show_stretched_budget(&self, budget: Duration) {
        let first = self.budget.replace(budget) < budget / 2;
        // Once is enough for somebody who reads lines.
        if self.bar.is_none() && first {
            say!(
                "quell: rounds take long here: about {} s for all that it takes",
                budget.as_secs()
            );
        }
    }

    /// Moves the bar to the present time, with this message.
    pub(crate) fn show_progress(&self, message: String) {
        let Some(bar) = &self.bar else { return };
        let share = self.began.elapsed().as_secs_f64() / self.budget.get().as_secs_f64().max(0.001);
        bar.set_position((share * 1000.0) as u64);
        bar.set_message(message);
    }
}

impl Drop for ExperimentProgress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
