//! The accounts of a run without and of a run with the plan.

use std::fmt::Write as _;

use quell_event::account::AccountSummary;
use serde::Serialize;

use crate::compare::accounts::{ComparedAccounts, ComparedMechanism as Row};
use crate::show::style::DIM;
use crate::show::table::Table;
use crate::show::units::{percent, time, time_or_dash};

/// The most rows of mechanisms in the table.
const MAX_ROWS: usize = 6;

/// A mechanism with less than this share of the CPU time in both runs has no row.
const MIN_SHOWN_SHARE: f64 = 0.01;

/// The accounts of two runs that were watched in the same way.
pub(crate) struct PairAccounts {
    pub(crate) before: AccountSummary,
    pub(crate) after: AccountSummary,
}

/// The object `account` in JSON. Its own keys are those of the observed run, or of the run without the plan where a plan was
/// given and no run observed.
#[derive(Serialize)]
pub(super) struct AccountJson<'a> {
    #[serde(flatten)]
    observed: &'a AccountSummary,
    before: Option<&'a AccountSummary>,
    after: Option<&'a AccountSummary>,
}

impl<'a> AccountJson<'a> {
    /// `None` where there is no account at all.
    pub(super) fn new(
        observed: Option<&'a AccountSummary>,
        pair: Option<&'a PairAccounts>,
    ) -> Option<Self> {
        let before = pair.map(|p| &p.before);
        Some(Self {
            observed: observed.or(before)?,
            before,
            after: pair.map(|p| &p.after),
        })
    }
}

/// The interval of a sampled time.
fn interval_text(ns: u64, [low, high]: [u64; 2]) -> String {
    match ns {
        0 => String::new(),
        _ => format!("{} to {}", time(low), time(high)),
    }
}

fn walk_share(account: &AccountSummary) -> Option<f64> {
    account.tlb_misses.as_ref()?.walk_share
}

impl PairAccounts {
    /// The mechanisms that matter in one of the runs, the dearest first.
    fn dearest_rows(&self) -> Vec<Row> {
        let share = |row: &Row| {
            let of = |ns: u64, cpu_ns: u64| ns as f64 / cpu_ns.max(1) as f64;
            let (a, b) = (row.a.total_ns(), row.b.total_ns());
            of(a, self.before.cpu_ns).max(of(b, self.after.cpu_ns))
        };
        let mut rows = ComparedAccounts::new(&self.before, &self.after).mechanisms;
        rows.retain(|row| share(row) >= MIN_SHOWN_SHARE);
        rows.sort_by_key(|row| std::cmp::Reverse(row.a.total_ns().max(row.b.total_ns())));
        rows
    }

    /// The table of mechanisms, and the time that is left to win.
    pub(super) fn accounts_table(&self) -> String {
        let (before, after) = (&self.before, &self.after);
        let mut t = Table::new(&[
            "",
            ">CPU before",
            ">95 % interval",
            ">CPU after",
            ">95 % interval",
            ">asleep before",
            ">after",
        ]);
        t.row(vec![
            "all that the program did".to_owned(),
            time(before.cpu_ns),
            String::new(),
            time(after.cpu_ns),
            String::new(),
            String::new(),
            String::new(),
        ]);
        t.row(vec![
            "memory management".to_owned(),
            time_or_dash(before.memory_cpu_ns),
            interval_text(before.memory_cpu_ns, before.memory_cpu_ci95),
            time_or_dash(after.memory_cpu_ns),
            interval_text(after.memory_cpu_ns, after.memory_cpu_ci95),
            time_or_dash(before.blocked_ns),
            time_or_dash(after.blocked_ns),
        ]);
        let rows = self.dearest_rows();
        for row in rows.iter().take(MAX_ROWS) {
            t.row(vec![
                row.mechanism.name().to_owned(),
                time_or_dash(row.a.cpu_ns),
                interval_text(row.a.cpu_ns, row.a.ci95),
                time_or_dash(row.b.cpu_ns),
                interval_text(row.b.cpu_ns, row.b.ci95),
                time_or_dash(row.a.blocked_ns),
                time_or_dash(row.b.blocked_ns),
            ]);
        }
        let mut text = t.text();
        let left = |a: &AccountSummary| (percent(a.ceiling.cpu), percent(a.ceiling.wall));
        let ((was_cpu, was_wall), (cpu, wall)) = (left(before), left(after));
        // Writing to a String does not fail.
        if let (Some(was), Some(is)) = (walk_share(before), walk_share(after)) {
            let _ = writeln!(
                text,
                "  TLB misses, in its own time: page walks take {} of its cycles in user mode before, {} after",
                percent(was),
                percent(is)
            );
        }
        let _ = writeln!(
            text,
            "  {DIM}left to touch: {cpu} of CPU time, {wall} of the time that passed (before: {was_cpu}, {was_wall}){DIM:#}"
        );
        text
    }
}

#[cfg(test)]
mod tests {
    use quell_event::Mechanism;
    use quell_event::account::{AccountCeiling, TlbMisses};

    use super::*;
    use crate::compare::fixture::account;

    fn spent() -> PairAccounts {
        let mut before = account(
            2_000,
            &[
                (Mechanism::Unmap, 300, 0),
                (Mechanism::LockMmap, 5, 700),
                (Mechanism::Brk, 4, 0),
            ],
        );
        before.ceiling = AccountCeiling {
            cpu: 0.155,
            wall: 0.4,
        };
        let mut after = account(
            1_500,
            &[(Mechanism::Unmap, 30, 0), (Mechanism::FaultAnon, 90, 0)],
        );
        after.ceiling = AccountCeiling {
            cpu: 0.08,
            wall: 0.05,
        };
        PairAccounts { before, after }
    }

    /// Check that a mechanism that matters in either run has a row, the dearest first, that a tiny one has none, and that the
    /// time left to win is there.
    #[test]
    fn a_table_of_what_matters() {
        let text = anstream::adapter::strip_str(&spent().accounts_table()).to_string();
        insta::assert_snapshot!(text, @r"
                                    CPU before       95 % interval  CPU after       95 % interval  asleep before  after
          all that the program did      2.00 s                         1.50 s
          memory management             309 ms    278 ms to 340 ms     120 ms    108 ms to 132 ms         700 ms      -
          lock.mmap                    5.00 ms  4.50 ms to 5.50 ms          -                             700 ms      -
          unmap                         300 ms    270 ms to 330 ms    30.0 ms  27.0 ms to 33.0 ms              -      -
          fault.anon                         -                        90.0 ms  81.0 ms to 99.0 ms              -      -
          left to touch: 8.0 % of CPU time, 5.0 % of the time that passed (before: 16 %, 40 %)
        ");
    }

    /// Check that the time of page walks stands apart from the table, where both runs have it.
    #[test]
    fn walks_are_told_apart() {
        let mut spent = spent();
        assert!(!spent.accounts_table().contains("TLB"));
        let walks = |share| {
            Some(TlbMisses {
                walk_share: Some(share),
                ..TlbMisses::default()
            })
        };
        spent.before.tlb_misses = walks(0.12);
        assert!(!spent.accounts_table().contains("TLB"));
        spent.after.tlb_misses = walks(0.03);
        let text = spent.accounts_table();
        assert!(
            text.contains("\n  TLB misses, in its own time: page walks take 12 % of its cycles in user mode before, 3.0 % after\n"),
            "{text}"
        );
    }

    /// Check that the observed run's keys stay in their place with both accounts beside them, that without an observed run they
    /// are those of the run without the plan, and that the object is absent without any account.
    #[test]
    fn keys_stay_where_they_were() {
        let (observed, spent) = (account(3_000, &[(Mechanism::Unmap, 400, 0)]), spent());
        let json = |told: Option<AccountJson<'_>>| serde_json::to_value(told).unwrap();
        let all = json(AccountJson::new(Some(&observed), Some(&spent)));
        let cpu = |value: &serde_json::Value| value["cpu_ns"].as_u64().unwrap() / 1_000_000;
        assert_eq!(
            (cpu(&all), cpu(&all["before"]), cpu(&all["after"])),
            (3_000, 2_000, 1_500)
        );
        assert_eq!(all["mechanisms"][0]["mechanism"], "unmap");
        assert_eq!(cpu(&json(AccountJson::new(None, Some(&spent)))), 2_000);
        let alone = json(AccountJson::new(Some(&observed), None));
        assert!(alone["before"].is_null() && alone["after"].is_null());
        assert!(json(AccountJson::new(None, None)).is_null());
    }
}
