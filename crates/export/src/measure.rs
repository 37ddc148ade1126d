//! The times that a distribution is of, and their HdrHistogram.

use anyhow::Context as _;
use hdrhistogram::Histogram;
use quell_event::named_enum;
use quell_event::trace::EventRow;

named_enum! {
    /// A time that shootdowns have.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Measure {
        /// The culprit's wait, one a shootdown.
        #[default]
        Wait = "wait",
        /// The victim's delay, one a victim that was seen.
        Delay = "delay",
        /// The victim's stall, one a victim that was seen.
        Stall = "stall",
    }
}

/// Larger values are recorded as this one: nearly 5 hours. It bounds a histogram's memory, to about 300 KB.
const MAX_VALUE_NS: u64 = 1 << 44;

impl Measure {
    /// The row's value, ns; `None` where it has none.
    pub(crate) fn value_of(self, row: &EventRow) -> Option<u64> {
        match self {
            Self::Wait => row.is_first().then_some(row.wait_ns),
            Self::Delay => (!row.is_unseen()).then_some(row.delay_ns.into()),
            Self::Stall => (!row.is_unseen()).then_some(row.stall_ns.into()),
        }
    }
}

/// An empty histogram of ns: 3 significant digits, which keeps values within 0.1 %.
pub(crate) fn new_histogram() -> anyhow::Result<Histogram<u64>> {
    Histogram::new_with_bounds(1, MAX_VALUE_NS, 3).context("can't make a histogram")
}
