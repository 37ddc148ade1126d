//! Two accounts, joined by mechanism.

use std::collections::BTreeMap;

use quell_event::Mechanism;
use quell_event::account::{AccountSummary, MechanismRow};

use super::TraceSide;

/// The time of a mechanism in one account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MechanismTime {
    pub(crate) cpu_ns: u64,
    /// The CPU time is within these bounds in 95 of 100 recordings.
    pub(crate) ci95: [u64; 2],
    pub(crate) blocked_ns: u64,
}

impl MechanismTime {
    fn of_row(row: &MechanismRow) -> Self {
        Self {
            cpu_ns: row.cpu_ns,
            ci95: row.ci95,
            blocked_ns: row.blocked_ns,
        }
    }

    /// The time of either kind together.
    pub(crate) fn total_ns(self) -> u64 {
        self.cpu_ns.saturating_add(self.blocked_ns)
    }
}

/// The time of a mechanism in both accounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ComparedMechanism {
    pub(crate) mechanism: Mechanism,
    pub(crate) a: MechanismTime,
    pub(crate) b: MechanismTime,
}

impl ComparedMechanism {
    /// Whether the CPU times differ by more than sampling alone explains: their intervals don't overlap.
    pub(crate) fn is_apart(&self) -> bool {
        are_apart(self.a.ci95, self.b.ci95)
    }
}

/// Whether two intervals don't overlap.
pub(crate) fn are_apart(a: [u64; 2], b: [u64; 2]) -> bool {
    a[1] < b[0] || b[1] < a[0]
}

/// Both accounts.
pub(crate) struct ComparedAccounts<'a> {
    pub(crate) a: &'a AccountSummary,
    pub(crate) b: &'a AccountSummary,
    /// The mechanisms, the largest change of time first.
    pub(crate) mechanisms: Vec<ComparedMechanism>,
}

impl<'a> ComparedAccounts<'a> {
    /// The accounts of two traces; `None` where one has none.
    pub(super) fn of_sides(a: &'a TraceSide, b: &'a TraceSide) -> Option<Self> {
        let (a, b) = (a.summary.account.as_ref()?, b.summary.account.as_ref()?);
        Some(Self::new(a, b))
    }

    /// Joins them by mechanism.
    pub(crate) fn new(a: &'a AccountSummary, b: &'a AccountSummary) -> Self {
        let mut rows: BTreeMap<Mechanism, [MechanismTime; 2]> = BTreeMap::new();
        for (side, account) in [a, b].into_iter().enumerate() {
            for row in &account.mechanisms {
                rows.entry(row.mechanism).or_default()[side] = MechanismTime::of_row(row);
            }
        }
        let spent = |(mechanism, [a, b]): (Mechanism, [MechanismTime; 2])| ComparedMechanism {
            mechanism,
            a,
            b,
        };
        let mut mechanisms: Vec<ComparedMechanism> = rows.into_iter().map(spent).collect();
        mechanisms.sort_by_key(|m| std::cmp::Reverse(m.a.total_ns().abs_diff(m.b.total_ns())));
        Self { a, b, mechanisms }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::account;
    use super::*;

    /// Check that mechanisms of either side are there, the largest change first, and that a change within both intervals
    /// is known from one beyond.
    #[test]
    fn what_changed_most_is_first() {
        let of = |rows: &[(Mechanism, u64, u64)]| account(0, rows);
        let a = of(&[
            (Mechanism::FaultAnon, 1000, 0),
            (Mechanism::Unmap, 500, 0),
            (Mechanism::LockMmap, 0, 300),
        ]);
        let b = of(&[
            (Mechanism::FaultAnon, 950, 0),
            (Mechanism::Fork, 90, 0),
            (Mechanism::LockMmap, 0, 10),
        ]);
        let accounts = ComparedAccounts::new(&a, &b);
        let order: Vec<_> = accounts.mechanisms.iter().map(|m| m.mechanism).collect();
        let expected = [
            Mechanism::Unmap,
            Mechanism::LockMmap,
            Mechanism::Fork,
            Mechanism::FaultAnon,
        ];
        assert_eq!(order, expected);
        let apart: Vec<_> = accounts
            .mechanisms
            .iter()
            .map(ComparedMechanism::is_apart)
            .collect();
        assert_eq!(apart, [true, false, true, false]);
        let with = |account: &AccountSummary| {
            let mut side = TraceSide::default();
            side.summary.account = Some(account.clone());
            side
        };
        assert!(ComparedAccounts::of_sides(&with(&a), &with(&b)).is_some());
        assert!(ComparedAccounts::of_sides(&with(&a), &TraceSide::default()).is_none());
    }
}
