//! One metric in the two runs of a pair, and its kind.

/// The value of one metric in the two runs of a pair.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunPair {
    /// Without the plan.
    pub before: f64,
    /// With the plan.
    pub after: f64,
}

impl RunPair {
    /// A pair of two values.
    #[must_use]
    pub fn new(before: f64, after: f64) -> Self {
        Self { before, after }
    }
}

/// Whether a metric counts events or measures something: the noise of the two differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MetricKind {
    /// Whole events: shootdowns, victims, page faults. Few of them scatter by chance alone.
    Count,
    /// Something on a scale: time, memory, a number from the program's output.
    Measure,
}
