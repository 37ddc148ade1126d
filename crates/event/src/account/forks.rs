//! The cost of a fork, by process: many small forks of a shell would hide a large one.

use super::summary_rows::MechanismRow;
use super::{Account, AccountRow};
use crate::Mechanism;

/// Adds to the row of forks how many there were, and to each function that forked, the cost of one fork of its process.
pub(super) fn add_fork_costs(account: &Account, row: &mut MechanismRow) {
    row.count = account.processes.iter().map(|p| p.forks).sum();
    for who in &mut row.who {
        let process = account.processes.iter().find(|p| p.pid == who.pid);
        let Some(forks) = process.map(|p| p.forks).filter(|&n| n > 0) else {
            continue;
        };
        let is_its = |r: &&AccountRow| r.mechanism == Mechanism::Fork && r.pid == who.pid;
        let samples = account.rows.iter().filter(is_its).map(|r| r.samples).sum();
        who.forks = Some(forks);
        who.each_ns = Some(account.cpu_ns_of(samples) / forks);
    }
}

#[cfg(test)]
mod tests {
    use crate::account::{Account, AccountRow, AccountSummary, MechanismPart, ProcessTime};
    use crate::{Mechanism, Tally, Text};

    /// Check that a large fork is not averaged with the small ones of another process, and that a process which forks in
    /// two functions has one figure.
    #[test]
    fn by_process() {
        let row = |pid, function: &str, samples| AccountRow {
            pid,
            mechanism: Mechanism::Fork,
            part: MechanismPart::Other,
            advice: Text::default(),
            function: function.into(),
            file: "a".into(),
            allocator: Text::default(),
            samples,
            waits: 0,
            blocked_ns: 0,
            longest_ns: 0,
        };
        let process = |pid, comm: &str, forks| ProcessTime {
            pid,
            comm: comm.into(),
            run_ns: 500_000,
            samples: 500,
            forks,
            ..ProcessTime::default()
        };
        let tally = Tally {
            account: Some(Account {
                rows: vec![row(1, "save", 70), row(1, "rewrite", 10), row(2, "sh", 20)],
                processes: vec![process(1, "redis-server", 2), process(2, "sh", 100)],
                ..Account::default()
            }),
            ..Tally::default()
        };
        let summary = AccountSummary::new(&tally).expect("an account");
        let forks = summary.mechanism_row(Mechanism::Fork).expect("forks");
        assert_eq!((forks.count, forks.cpu_ns), (102, 100_000));
        let told: Vec<_> = forks
            .who
            .iter()
            .map(|w| (w.function.as_str(), w.forks, w.each_ns))
            .collect();
        let expected = [
            ("save", Some(2), Some(40_000)),
            ("sh", Some(100), Some(200)),
            ("rewrite", Some(2), Some(40_000)),
        ];
        assert_eq!(told, expected);
    }
}
