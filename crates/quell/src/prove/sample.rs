//! What one counted run yields: a number for each metric.

use super::metric;

/// The numbers of one run, in the order of the metrics.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sample {
    pub(crate) values: Vec<f64>,
    /// What the program says of the settings that it was given.
    pub(crate) complaints: Vec<String>,
    /// The wait is an estimate: there were too many shootdowns to time all.
    pub(crate) estimated: bool,
}

impl Sample {
    /// The most memory that it had, bytes.
    pub(crate) fn max_rss(&self) -> f64 {
        let value = self.values.get(metric::MAX_RSS);
        value.copied().unwrap_or(f64::NAN)
    }
}
