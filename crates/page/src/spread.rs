//! How wait, delay and stall are spread, by step.

use quell_event::histogram::{BUCKET_COUNT, bucket_of};

/// Wait, delay and stall.
pub(crate) const TIME_KINDS: usize = 3;

/// The spread in one step.
pub(crate) struct StepSpread {
    pub(crate) counts: [Vec<u64>; TIME_KINDS],
    pub(crate) max: [u64; TIME_KINDS],
}

impl Default for StepSpread {
    fn default() -> Self {
        Self {
            counts: std::array::from_fn(|_| vec![0; BUCKET_COUNT]),
            max: [0; TIME_KINDS],
        }
    }
}

impl StepSpread {
    fn merge(&mut self, other: &Self) {
        for kind in 0..TIME_KINDS {
            for (mine, theirs) in self.counts[kind].iter_mut().zip(&other.counts[kind]) {
                *mine += theirs;
            }
            self.max[kind] = self.max[kind].max(other.max[kind]);
        }
    }
}

/// The spreads of all steps, in the order of time.
#[derive(Default)]
pub(crate) struct SpreadSeries {
    steps: Vec<(u64, StepSpread)>,
}

impl SpreadSeries {
    #[inline]
    pub(crate) fn record_time(&mut self, step: u64, kind: usize, ns: u64) {
        let dist = self.step_mut(step);
        dist.counts[kind][bucket_of(ns)] += 1;
        dist.max[kind] = dist.max[kind].max(ns);
    }

    fn step_mut(&mut self, step: u64) -> &mut StepSpread {
        let at = match self.steps.last() {
            Some((last, _)) if *last == step => self.steps.len() - 1,
            _ => match self.steps.binary_search_by_key(&step, |s| s.0) {
                Ok(at) => at,
                Err(at) => {
                    self.steps.insert(at, (step, StepSpread::default()));
                    at
                }
            },
        };
        &mut self.steps[at].1
    }

    /// Makes steps twice as long.
    pub(crate) fn double_steps(&mut self) {
        for (step, _) in &mut self.steps {
            *step >>= 1;
        }
        self.steps.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1.merge(&next.1);
            }
            same
        });
    }

    pub(crate) fn steps(&self) -> &[(u64, StepSpread)] {
        &self.steps
    }
}
