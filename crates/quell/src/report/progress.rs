//! The progress of reading a trace, on standard error.

use std::sync::Once;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle};

/// Reading that takes no longer needs no line.
const SILENT_TIME: Duration = Duration::from_secs(1);

/// The number of rows after which a caller that reads them one by one should report.
pub(super) const ROWS_PER_STEP: u64 = 1 << 16;

/// A line on a terminal, shown after a second; elsewhere there is none.
pub(super) struct ReadProgress {
    bar: ProgressBar,
    began: Instant,
    shown: Once,
}

impl ReadProgress {
    /// Starts with the number of all rows.
    pub(super) fn new(rows: u64) -> Self {
        let bar = ProgressBar::with_draw_target(Some(rows), ProgressDrawTarget::hidden())
            .with_finish(ProgressFinish::AndClear);
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

    /// Sets the number of rows that are done.
    pub(super) fn set_rows(&self, rows: u64) {
        if self.began.elapsed() >= SILENT_TIME {
            let show = || self.bar.set_draw_target(ProgressDrawTarget::stderr());
            self.shown.call_once(show);
        }
        self.bar.set_position(rows);
    }
}
