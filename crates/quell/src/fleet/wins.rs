//! The time that each remedy could win for each process of a trace, as flat rows, by the same code as a plan.

use std::collections::HashMap;

use quell_event::Tally;
use quell_event::account::Account;
use quell_fleet::{ProcessRow, WinRow};
use quell_remedy::{FoundSoftware, ObservedTime, possible_wins};

/// The rows of a trace with these processes and their mapped allocators; none where it has no account.
pub(super) fn win_rows(
    tally: &Tally,
    processes: &[ProcessRow],
    allocators: &HashMap<u32, Vec<FoundSoftware>>,
    number: u64,
) -> Vec<WinRow> {
    let Some(account) = &tally.account else {
        return Vec::new();
    };
    // A process counts as the program that it was last, so a shell counts as the program that it has executed.
    let known: HashMap<u32, &ProcessRow> = processes.iter().map(|p| (p.pid, p)).collect();
    let mut rows = Vec::new();
    for (pid, process) in known {
        let spent = ObservedTime {
            account: of_process(account, pid),
            hits_ns: 0,
            duration_ns: tally.duration_ns,
        };
        if spent.account.rows.is_empty() {
            continue;
        }
        let found = allocators.get(&pid).map_or(&[][..], Vec::as_slice);
        let wins = possible_wins(found, &spent).into_iter();
        rows.extend(wins.map(|win| WinRow {
            trace: number,
            pid,
            program: process.program.clone(),
            build_id: process.build_id.clone(),
            asker: win.asker.to_owned(),
            remedy: win.remedy.to_owned(),
            cpu_ns: win.ceiling.cpu_ns,
            blocked_ns: win.ceiling.blocked_ns,
        }));
    }
    rows.sort_by(|a, b| (a.pid, &a.remedy, &a.asker).cmp(&(b.pid, &b.remedy, &b.asker)));
    rows
}

/// The part of an account that belongs to one process. Its samples then stand for its own time on a CPU, and not for the mean of
/// all processes.
fn of_process(account: &Account, pid: u32) -> Account {
    let rows = account.rows.iter().filter(|r| r.pid == pid);
    let holders = account.holders.iter().filter(|h| h.pid == pid);
    let processes = account.processes.iter().filter(|p| p.pid == pid);
    Account {
        rows: rows.cloned().collect(),
        holders: holders.cloned().collect(),
        processes: processes.cloned().collect(),
        ..Account::default()
    }
}

#[cfg(test)]
mod tests {
    use quell_event::account::{AccountRow, MechanismPart, ProcessTime};
    use quell_event::{Mechanism, Text};
    use quell_remedy::{SoftwareKind, by_name};

    use super::*;

    /// Check that each process has the cost of its own calls, under the name of its program, and that one without the allocator
    /// has no row of it.
    #[test]
    fn processes_have_their_own() {
        let row = |pid, samples| AccountRow {
            pid,
            mechanism: Mechanism::Unmap,
            part: MechanismPart::Other,
            advice: Text::default(),
            function: "work".into(),
            file: "app".into(),
            allocator: "free (libc.so.6)".into(),
            samples,
            waits: 0,
            blocked_ns: 0,
            longest_ns: 0,
        };
        let time = |pid| ProcessTime {
            pid,
            comm: "app".into(),
            run_ns: 1000,
            samples: 100,
            ..ProcessTime::default()
        };
        let mut tally = Tally {
            account: Some(Account {
                rows: vec![row(7, 10), row(8, 20), row(9, 30)],
                processes: vec![time(7), time(8), time(9)],
                ..Account::default()
            }),
            ..Tally::default()
        };
        let process = |pid, program: &str| ProcessRow {
            pid,
            program: program.to_owned(),
            ..ProcessRow::default()
        };
        let processes = [process(7, "one"), process(8, "other"), process(9, "bare")];
        let libc = || vec![by_name::usual_version(SoftwareKind::Glibc)];
        let allocators = HashMap::from([(7, libc()), (8, libc())]);
        let told = |tally: &Tally| {
            let rows = win_rows(tally, &processes, &allocators, 3);
            let row = |w: &WinRow| format!("{} {} {} {}", w.program, w.asker, w.remedy, w.cpu_ns);
            rows.iter().map(row).collect::<Vec<_>>()
        };
        assert_eq!(
            told(&tally),
            [
                "one glibc malloc glibc.keep 100",
                "other glibc malloc glibc.keep 200"
            ]
        );
        tally.account = None;
        assert!(told(&tally).is_empty());
    }
}
