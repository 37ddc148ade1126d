//! How wait, delay and stall are spread, by step.

use quell_event::hist::{BUCKETS, bucket_of};

/// Wait, delay and stall.
pub(crate) const KINDS: usize = 3;

/// The spread in one step.
pub(crate) struct Dist {
    pub(crate) counts: [Vec<u64>; KINDS],
    pub(crate) max: [u64; KINDS],
}

impl Default for Dist {
    fn default() -> Self {
        Self {
            counts: std::array::from_fn(|_| vec![0; BUCKETS]),
            max: [0; KINDS],
        }
    }
}

impl Dist {
    fn merge(&mut self, other: &Self) {
        for kind in 0..KINDS {
            for (mine, theirs) in self.counts[kind].iter_mut().zip(&other.counts[kind]) {
                *mine += theirs;
            }
            self.max[kind] = self.max[kind].max(other.max[kind]);
        }
    }
}

/// The spreads of all steps, in the order of time.
#[derive(Default)]
pub(crate) struct Spread {
    steps: Vec<(u64, Dist)>,
}

impl Spread {
    #[inline]
    pub(crate) fn record(&mut self, step: u64, kind: usize, ns: u64) {
        let dist = self.at(step);
        dist.counts[kind][bucket_of(ns)] += 1;
        dist.max[kind] = dist.max[kind].max(ns);
    }

    fn at(&mut self, step: u64) -> &mut Dist {
        let at = match self.steps.last() {
            Some((last, _)) if *last == step => self.steps.len() - 1,
            _ => match self.steps.binary_search_by_key(&step, |s| s.0) {
                Ok(at) => at,
                Err(at) => {
                    self.steps.insert(at, (step, Dist::default()));
                    at
                }
            },
        };
        &mut self.steps[at].1
    }

    /// Makes steps twice as long.
    pub(crate) fn coarsen(&mut self) {
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

    pub(crate) fn steps(&self) -> &[(u64, Dist)] {
        &self.steps
    }
}
