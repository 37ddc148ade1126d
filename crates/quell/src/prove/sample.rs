//! The result of one counted run: a number for each metric.

use super::metric;

/// The numbers of one run, in the order of the metrics.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RunSample {
    pub(crate) values: Vec<f64>,
    /// The lines by which the program refuses a setting.
    pub(crate) complaints: Vec<String>,
    /// Whether the wait is an estimate, because there were too many shootdowns to time all.
    pub(crate) estimated: bool,
}

impl RunSample {
    /// The maximum of its memory, in bytes.
    pub(crate) fn max_rss(&self) -> f64 {
        let value = self.values.get(metric::MAX_RSS_INDEX);
        value.copied().unwrap_or(f64::NAN)
    }
}
