//! One metric in the two runs of a pair, and what it is made of.

/// The value of one metric in the two runs of a pair.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// Without the plan.
    pub before: f64,
    /// With the plan.
    pub after: f64,
}

impl Pair {
    /// A pair of two values.
    #[must_use]
    pub fn new(before: f64, after: f64) -> Self {
        Self { before, after }
    }
}

/// What a metric is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Whole events: shootdowns, victims, page faults. Few of them scatter by chance alone.
    Count,
    /// Something on a scale: time, memory, a number from the program's output.
    Measure,
}
