//! How far an experiment has come, on standard error.

use std::io::{self, IsTerminal as _};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use quell_lab::experiment::Round;
use quell_lab::judge::Judgement;

/// A bar on a terminal; elsewhere a line when an experiment begins.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    began: Instant,
    budget: Duration,
}

impl Progress {
    pub(crate) fn new(what: &str, budget: Duration) -> Self {
        let began = Instant::now();
        if !io::stderr().is_terminal() {
            say!("quell: {what}, at most {} s", budget.as_secs());
            return Self {
                bar: None,
                began,
                budget,
            };
        }
        let bar = ProgressBar::with_draw_target(Some(1000), ProgressDrawTarget::stderr());
        // A template that doesn't parse leaves the default one.
        if let Ok(style) = ProgressStyle::with_template("{prefix} {bar:20} {wide_msg}") {
            bar.set_style(style);
        }
        bar.set_prefix(what.to_owned());
        bar.tick();
        Self {
            bar: Some(bar),
            began,
            budget,
        }
    }

    /// A round is done. No thread moves the bar, to leave the machine to the experiment.
    pub(crate) fn round(&self, rounds: &[Round], judgement: &Judgement) {
        let Some(bar) = &self.bar else { return };
        let share = self.began.elapsed().as_secs_f64() / self.budget.as_secs_f64().max(0.001);
        bar.set_position((share * 1000.0) as u64);
        let ppm = &judgement.real.stall_ppm;
        bar.set_message(format!(
            "{} rounds, {} valid, {:+.0} ppm",
            rounds.len(),
            judgement.valid_rounds,
            ppm.difference
        ));
    }

    /// A curve has come so far.
    pub(crate) fn reached(&self, elapsed: Duration, message: String) {
        let Some(bar) = &self.bar else { return };
        let share = elapsed.as_secs_f64() / self.budget.as_secs_f64().max(0.001);
        bar.set_position((share * 1000.0) as u64);
        bar.set_message(message);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
