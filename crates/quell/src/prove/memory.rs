//! Whether what is tried keeps to the budget of memory, as it is measured: what a setting takes in this program no table knows.

use quell_remedy::PlanOptions;
use quell_stats::median;

use crate::show::units::percent;

/// How much the program may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryBudget {
    /// By which share it may grow.
    pub(crate) share: f64,
    /// By so many bytes it may in any case.
    pub(crate) at_least: u64,
}

impl MemoryBudget {
    /// Runs after which it is judged: one may be an exception.
    const FEWEST: usize = 2;
    /// What nobody bounded may double: the verdict names the price.
    const UNASKED: f64 = 1.0;

    /// What the user allows, or where nothing is said more than what is chosen unmeasured may take.
    pub(crate) fn of(asked: bool, options: &PlanOptions) -> Self {
        Self {
            share: if asked {
                options.budget
            } else {
                options.budget.max(Self::UNASKED)
            },
            at_least: options.at_least,
        }
    }

    /// What the budget allows, in words.
    pub(crate) fn allows(self) -> String {
        format!("{} more", percent(self.share))
    }

    /// How many times the memory without a change it takes with it, where that is more than the budget allows; bytes of
    /// each run.
    pub(crate) fn exceeded(self, without: &[f64], with: &[f64]) -> Option<f64> {
        if with.len() < Self::FEWEST || without.is_empty() {
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

    /// Check that a budget which was asked for is kept to, and that without one memory may double.
    #[test]
    fn asked_for() {
        let options = PlanOptions {
            budget: 0.1,
            at_least: 0,
            ..PlanOptions::default()
        };
        assert!((MemoryBudget::of(true, &options).share - 0.1).abs() < 1e-9);
        assert!((MemoryBudget::of(false, &options).share - 1.0).abs() < 1e-9);
    }

    /// Check that growth beyond the share is told in times, that of a small program some megabytes are allowed, and that one run is
    /// not enough to judge by.
    #[test]
    fn beyond_the_budget() {
        let budget = MemoryBudget {
            share: 0.25,
            at_least: 16_000_000,
        };
        let plain = [100.0 * MB, 101.0 * MB, 99.0 * MB];
        assert_eq!(budget.exceeded(&plain, &[120.0 * MB, 121.0 * MB]), None);
        assert_eq!(budget.exceeded(&plain, &[400.0 * MB]), None);
        assert_eq!(
            budget.exceeded(&plain, &[400.0 * MB, 400.0 * MB]),
            Some(4.0)
        );
        let small = [4.0 * MB];
        assert_eq!(budget.exceeded(&small, &[12.0 * MB, 12.0 * MB]), None);
        assert_eq!(budget.exceeded(&[], &[12.0 * MB, 12.0 * MB]), None);
    }
}
