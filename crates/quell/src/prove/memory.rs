//! Checks by measurement that a tried change keeps to the budget of memory: no table knows how much a setting takes in
//! this program.

use quell_remedy::PlanOptions;
use quell_stats::median;

use crate::show::units::percent;

/// The growth of memory that a change may cause.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryBudget {
    /// The share by which the program may grow.
    pub(crate) share: f64,
    /// It may grow by this number of bytes in any case.
    pub(crate) at_least: u64,
}

impl MemoryBudget {
    /// The number of runs after which it is judged: a single one may be an exception.
    const MIN_RUNS: usize = 2;
    /// Without a bound of the user's, memory may double: the verdict names the price.
    const UNASKED_SHARE: f64 = 1.0;

    /// The user's own bound. Without one a measured change may take more than one that is chosen unmeasured.
    pub(crate) fn from_options(asked: bool, options: &PlanOptions) -> Self {
        Self {
            share: if asked {
                options.budget
            } else {
                options.budget.max(Self::UNASKED_SHARE)
            },
            at_least: options.at_least,
        }
    }

    /// The growth that the budget allows, in words.
    pub(crate) fn allowed_growth(self) -> String {
        format!("{} more", percent(self.share))
    }

    /// The growth as a factor, where it is more than the budget allows. `without` and `with` are the bytes of each run; nothing
    /// is judged before `with` has [`Self::MIN_RUNS`] of them.
    pub(crate) fn growth_over_budget(self, without: &[f64], with: &[f64]) -> Option<f64> {
        if with.len() < Self::MIN_RUNS || without.is_empty() {
            return None;
        }
        let (without, with) = (median(without), median(with));
        let more = with - without;
        let is_over = more > self.share * without && more > self.at_least as f64;
        is_over.then(|| with / without.max(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: f64 = 1e6;

    /// Check that the user's budget is kept to, and that without one memory may double.
    #[test]
    fn asked_for() {
        let options = PlanOptions {
            budget: 0.1,
            at_least: 0,
            ..PlanOptions::default()
        };
        assert!((MemoryBudget::from_options(true, &options).share - 0.1).abs() < 1e-9);
        assert!((MemoryBudget::from_options(false, &options).share - 1.0).abs() < 1e-9);
    }

    /// Check that growth beyond the share is given as a factor, that a small program may take some megabytes, and that one run is
    /// not enough to judge by.
    #[test]
    fn beyond_the_budget() {
        let budget = MemoryBudget {
            share: 0.25,
            at_least: 16_000_000,
        };
        let plain = [100.0 * MB, 101.0 * MB, 99.0 * MB];
        assert_eq!(
            budget.growth_over_budget(&plain, &[120.0 * MB, 121.0 * MB]),
            None
        );
        assert_eq!(budget.growth_over_budget(&plain, &[400.0 * MB]), None);
        assert_eq!(
            budget.growth_over_budget(&plain, &[400.0 * MB, 400.0 * MB]),
            Some(4.0)
        );
        let small = [4.0 * MB];
        assert_eq!(
            budget.growth_over_budget(&small, &[12.0 * MB, 12.0 * MB]),
            None
        );
        assert_eq!(
            budget.growth_over_budget(&[], &[12.0 * MB, 12.0 * MB]),
            None
        );
    }
}
