//! How far the reading of a trace has come, on standard error.

use std::io::{self, IsTerminal as _};
use std::sync::Once;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// What takes no longer needs no line.
const QUIET: Duration = Duration::from_secs(1);

/// How often who reads rows one by one should tell, rows.
pub(super) const STEP: u64 = 1 << 16;

/// A line on a terminal, after a second; nothing elsewhere.
pub(super) struct Progress {
    bar: ProgressBar,
    began: Instant,
    shown: Once,
}

impl Progress {
    /// Of so many rows in all.
    pub(super) fn new(rows: u64) -> Self {
        let bar = ProgressBar::with_draw_target(Some(rows), ProgressDrawTarget::hidden());
        let template = "{bar:20} {human_pos}/{human_len} rows, {eta}";
        // A template that doesn't parse leaves the default one.
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Self {
            bar,
            began: Instant::now(),
            shown: Once::new(),
        }
    }

    /// So many rows are done.
    pub(super) fn set(&self, rows: u64) {
        if self.began.elapsed() >= QUIET {
            self.shown.call_once(|| {
                if io::stderr().is_terminal() {
                    self.bar.set_draw_target(ProgressDrawTarget::stderr());
                }
            });
        }
        self.bar.set_position(rows);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
