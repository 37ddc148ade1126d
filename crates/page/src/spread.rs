//! How wait, delay and stall are spread in one step.

use quell_event::histogram::{BUCKET_COUNT, bucket_of};

use crate::series::StepAmount;

/// Wait, delay and stall.
pub(crate) const TIME_KINDS: usize = 3;

/// The spread in one step.
pub(crate) struct StepSpread {
    pub(crate) counts: [Vec<u64>; TIME_KINDS],
    pub(crate) max: [u64; TIME_KINDS],
}

impl StepSpread {
    #[inline]
    pub(crate) fn record_time(&mut self, kind: usize, ns: u64) {
        self.counts[kind][bucket_of(ns)] += 1;
        self.max[kind] = self.max[kind].max(ns);
    }
}

impl StepAmount for StepSpread {
    fn none() -> Self {
        Self {
            counts: std::array::from_fn(|_| vec![0; BUCKET_COUNT]),
            max: [0; TIME_KINDS],
        }
    }

    fn add(&mut self, more: &Self) {
        for kind in 0..TIME_KINDS {
            for (mine, theirs) in self.counts[kind].iter_mut().zip(&more.counts[kind]) {
                *mine += theirs;
            }
            self.max[kind] = self.max[kind].max(more.max[kind]);
        }
    }
}
