//! Two accounts, side by side.

use std::collections::BTreeMap;

use quell_event::Mechanism;
use quell_event::account::{AccountSummary, MechanismRow};

use super::Side;

/// What one account has of a mechanism.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Time {
    pub(crate) cpu_ns: u64,
    /// Between these the CPU time is, in 95 of 100 recordings.
    pub(crate) ci95: [u64; 2],
    pub(crate) blocked_ns: u64,
}

impl Time {
    fn of(row: &MechanismRow) -> Self {
        Self {
            cpu_ns: row.cpu_ns,
            ci95: row.ci95,
            blocked_ns: row.blocked_ns,
        }
    }

    /// Of either kind.
    pub(crate) fn all(self) -> u64 {
        self.cpu_ns.saturating_add(self.blocked_ns)
    }
}

/// A mechanism in both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spent {
    pub(crate) mechanism: Mechanism,
    pub(crate) a: Time,
    pub(crate) b: Time,
}

impl Spent {
    /// Whether the CPU times differ by more than sampling may make them: their intervals have nothing in common.
    pub(crate) fn is_apart(&self) -> bool {
        are_apart(self.a.ci95, self.b.ci95)
    }
}

/// Two intervals that have nothing in common.
pub(crate) fn are_apart(a: [u64; 2], b: [u64; 2]) -> bool {
    a[1] < b[0] || b[1] < a[0]
}

/// Both accounts.
pub(crate) struct Accounts<'a> {
    pub(crate) a: &'a AccountSummary,
    pub(crate) b: &'a AccountSummary,
    /// What changed by most time first.
    pub(crate) mechanisms: Vec<Spent>,
}

impl<'a> Accounts<'a> {
    /// Those of two traces; `None` where one has none.
    pub(super) fn of(a: &'a Side, b: &'a Side) -> Option<Self> {
        let (a, b) = (a.summary.account.as_ref()?, b.summary.account.as_ref()?);
        Some(Self::new(a, b))
    }

    /// Joins them by mechanism.
    pub(crate) fn new(a: &'a AccountSummary, b: &'a AccountSummary) -> Self {
        let mut rows: BTreeMap<Mechanism, [Time; 2]> = BTreeMap::new();
        for (side, account) in [a, b].into_iter().enumerate() {
            for row in &account.mechanisms {
                rows.entry(row.mechanism).or_default()[side] = Time::of(row);
            }
        }
        let spent = |(mechanism, [a, b]): (Mechanism, [Time; 2])| Spent { mechanism, a, b };
        let mut mechanisms: Vec<Spent> = rows.into_iter().map(spent).collect();
        mechanisms.sort_by_key(|m| std::cmp::Reverse(m.a.all().abs_diff(m.b.all())));
        Self { a, b, mechanisms }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::account;
    use super::*;

    /// Check that mechanisms of either side are there, what changed most first, and that a change within both intervals
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
        let accounts = Accounts::new(&a, &b);
        let order: Vec<_> = accounts.mechanisms.iter().map(|m| m.mechanism).collect();
        let expected = [
            Mechanism::Unmap,
            Mechanism::LockMmap,
            Mechanism::Fork,
            Mechanism::FaultAnon,
        ];
        assert_eq!(order, expected);
        let apart: Vec<_> = accounts.mechanisms.iter().map(Spent::is_apart).collect();
        assert_eq!(apart, [true, false, true, false]);
        let with = |account: &AccountSummary| {
            let mut side = Side::default();
            side.summary.account = Some(account.clone());
            side
        };
        assert!(Accounts::of(&with(&a), &with(&b)).is_some());
        assert!(Accounts::of(&with(&a), &Side::default()).is_none());
    }
}
