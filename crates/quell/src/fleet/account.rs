//! The account of a trace as flat rows: the cost of memory management by program and function.

use std::collections::{BTreeMap, HashMap};

use quell_event::{Mechanism, Tally};
use quell_fleet::{CodeAccountRow as Row, ProcessRow};

use crate::show::account::with_file;

/// The rows of a trace with these processes; none where it has no account.
pub(super) fn account_rows(tally: &Tally, processes: &[ProcessRow], number: u64) -> Vec<Row> {
    let Some(account) = &tally.account else {
        return Vec::new();
    };
    let comms: HashMap<u32, &str> = account
        .processes
        .iter()
        .map(|p| (p.pid, p.comm.as_str()))
        .collect();
    // A process counts as the program that it was last, so a shell counts as the program that it has executed.
    let known: HashMap<u32, &ProcessRow> = processes.iter().map(|p| (p.pid, p)).collect();
    let row = |pid: u32, mechanism: Mechanism| {
        let process = known.get(&pid);
        let program = match process {
            _ if mechanism.is_of_kernel_thread() => "[kernel]".to_owned(),
            Some(process) => process.program.clone(),
            None => match comms.get(&pid) {
                Some(comm) if !comm.is_empty() => format!("[{comm}]"),
                _ => "[unknown]".to_owned(),
            },
        };
        Row {
            trace: number,
            pid,
            program,
            build_id: process.map(|p| p.build_id.clone()).unwrap_or_default(),
            mechanism: mechanism.name().to_owned(),
            ..Row::default()
        }
    };
    let rows = account.rows.iter().map(|r| Row {
        part: r.part.name().to_owned(),
        code: with_file(&r.function, &r.file),
        samples: r.samples,
        cpu_ns: account.cpu_ns_of(r.samples),
        waits: r.waits,
        blocked_ns: r.blocked_ns,
        ..row(r.pid, r.mechanism)
    });
    let mut rows: Vec<Row> = rows.collect();
    // No sample shows the cost of hits: it is the whole loss where that was measured, else the handler's time.
    let mut hits: BTreeMap<u32, u64> = BTreeMap::new();
    let of_watched = tally
        .victims
        .iter()
        .filter(|v| v.pid != 0 && comms.contains_key(&v.pid));
    for victim in of_watched {
        let ns = account
            .hit_ns
            .map_or(victim.stall_ns, |one| victim.hits * one);
        *hits.entry(victim.pid).or_default() += ns;
    }
    rows.extend(hits.into_iter().map(|(pid, cpu_ns)| Row {
        cpu_ns,
        part: "other".to_owned(),
        ..row(pid, Mechanism::ShootdownHit)
    }));
    rows
}

#[cfg(test)]
mod tests {
    use quell_event::{Account, AccountRow, MechanismPart, ProcessTime, Text, VictimTally};

    use super::*;

    /// Check that time is by the program that a process was last, that a process without a file goes by its name, that
    /// kernel threads are no program, and that hits count with their cost.
    #[test]
    fn programs_have_their_time() {
        let row = |pid, mechanism, function: &str, samples| AccountRow {
            pid,
            mechanism,
            part: MechanismPart::Other,
            advice: Text::default(),
            function: function.into(),
            file: "app".into(),
            allocator: Text::default(),
            samples,
            waits: 1,
            blocked_ns: 5,
            longest_ns: 5,
        };
        let time = |pid, comm: &str, run_ns, samples| ProcessTime {
            pid,
            comm: comm.into(),
            run_ns,
            samples,
            ..ProcessTime::default()
        };
        let victim = |pid| VictimTally {
            pid,
            comm: String::new(),
            cgroup: 0,
            bystander: false,
            hits: 3,
            stall_ns: 7,
        };
        let mut tally = Tally {
            account: Some(Account {
                rows: vec![
                    row(7, Mechanism::Unmap, "f", 1),
                    row(8, Mechanism::FaultAnon, "", 2),
                    row(9, Mechanism::Kswapd, "", 1),
                ],
                processes: vec![
                    time(7, "w", 600, 6),
                    time(8, "x", 200, 2),
                    time(9, "kswapd0", 0, 0),
                ],
                hit_ns: Some(1000),
                ..Account::default()
            }),
            victims: vec![victim(7), victim(7), victim(0), victim(99)],
            ..Tally::default()
        };
        let process = |program: &str| ProcessRow {
            pid: 7,
            program: program.to_owned(),
            build_id: "b".to_owned(),
            ..ProcessRow::default()
        };
        let told = |tally: &Tally| {
            let rows = account_rows(tally, &[process("sh"), process("app")], 3);
            let row = |r: &Row| format!("{} {} '{}' {}", r.program, r.mechanism, r.code, r.cpu_ns);
            rows.iter().map(row).collect::<Vec<_>>()
        };
        assert_eq!(
            told(&tally),
            [
                "app unmap 'f (app)' 100",
                "[x] fault.anon 'app' 200",
                "[kernel] kswapd 'app' 100",
                "app shootdown.hit '' 6000"
            ]
        );
        let account = tally.account.as_mut().unwrap();
        account.hit_ns = None;
        assert_eq!(told(&tally)[3], "app shootdown.hit '' 14");
        tally.account = None;
        assert!(told(&tally).is_empty());
    }
}
