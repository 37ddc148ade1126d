//! Function calls between CPUs as text: the functions, their callers, their CPUs, and the interrupted processes.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use quell_event::{CallKind, CallTally, FunctionCalls};
use quell_host::cpus;

use super::style::{DIM, heading};
use super::table::{Table, say_how_many_more};
use super::units::{count, plural, time};

/// A function that a process called, on however many CPUs.
#[derive(Default)]
pub(crate) struct CalledFunction<'a> {
    pub(crate) kind: CallKind,
    pub(crate) function: &'a str,
    pub(crate) pid: u32,
    pub(crate) comm: &'a str,
    /// Ascending.
    pub(crate) cpus: Vec<u32>,
    pub(crate) calls: u64,
    pub(crate) timed: u64,
    delay_ns: u64,
    pub(crate) stall_ns: u64,
    pub(crate) stall_max_ns: u64,
}

impl<'a> CalledFunction<'a> {
    fn add_tally(&mut self, c: &'a CallTally) {
        self.kind = c.kind;
        self.function = &c.function;
        self.pid = c.pid;
        self.comm = &c.comm;
        self.cpus.push(c.cpu);
        self.calls += c.calls;
        self.timed += c.timed;
        self.delay_ns += c.delay_ns;
        self.stall_ns += c.stall_ns;
        self.stall_max_ns = self.stall_max_ns.max(c.stall_max_ns);
    }

    /// A time, or a dash where no call was timed.
    fn timed_or_dash(&self, ns: u64) -> String {
        if self.timed == 0 {
            "-".to_owned()
        } else {
            time(ns)
        }
    }
}

/// Rows by function and culprit, over all CPUs, most calls first.
pub(crate) fn called_functions(calls: &FunctionCalls) -> Vec<CalledFunction<'_>> {
    let mut rows: BTreeMap<(&str, CallKind, u32), CalledFunction<'_>> = BTreeMap::new();
    for c in &calls.by {
        rows.entry((&c.function, c.kind, c.pid))
            .or_default()
            .add_tally(c);
    }
    let mut rows: Vec<_> = rows.into_values().collect();
    for row in &mut rows {
        row.cpus.sort_unstable();
        row.cpus.dedup();
    }
    // The sort is stable: rows with as many calls stay in the order of their names.
    rows.sort_by_key(|r| Reverse(r.calls));
    rows
}

/// Writes all tables of function calls, each with at most `top` rows.
pub(super) fn write_calls(out: &mut String, calls: &FunctionCalls, top: usize) {
    // Writing to a String does not fail.
    heading(out, "Function calls: functions that CPUs ran for others");
    let total = calls.total_calls();
    let mut notes = vec![format!(
        "{} in {}",
        plural(total, "call"),
        time(calls.stall_ns())
    )];
    if calls.lost > 0 {
        notes.push(format!("{} lost", count(calls.lost)));
    }
    if calls.own > 0 {
        notes.push(format!("{} of quell itself not counted", count(calls.own)));
    }
    if total == 0 {
        let _ = writeln!(out, "  {}", notes.join("; "));
        return;
    }
    let rows = called_functions(calls);
    let mut t = Table::new(&[
        ">calls", ">delay", ">stall", ">longest", "on CPUs", "kind", "function", ">pid", "culprit",
    ]);
    for row in rows.iter().take(top) {
        t.row(vec![
            count(row.calls),
            row.timed_or_dash(row.delay_ns.checked_div(row.timed).unwrap_or(0)),
            row.timed_or_dash(row.stall_ns),
            row.timed_or_dash(row.stall_max_ns),
            cpus::format_cpu_list(&row.cpus),
            row.kind.name().to_owned(),
            row.function.to_owned(),
            row.pid.to_string(),
            row.comm.to_owned(),
        ]);
    }
    out.push_str(&t.text());
    say_how_many_more(out, rows.len(), top);
    let _ = writeln!(
        out,
        "  {DIM}{}; delay is the mean from asking to running, longest since the start{DIM:#}",
        notes.join("; ")
    );
    write_callees(out, calls, top);
}

fn write_callees(out: &mut String, calls: &FunctionCalls, top: usize) {
    if calls.at.is_empty() {
        return;
    }
    heading(out, "Function calls: at whom");
    let mut t = Table::new(&[">hits", ">stall", ">pid", "name", "kind", "function"]);
    for v in calls.at.iter().take(top) {
        t.row(vec![
            count(v.hits),
            time(v.stall_ns),
            v.pid.to_string(),
            v.comm.clone(),
            v.kind.name().to_owned(),
            v.function.clone(),
        ]);
    }
    out.push_str(&t.text());
    say_how_many_more(out, calls.at.len(), top);
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_event::CallVictim;

    fn calls() -> FunctionCalls {
        let call = |function: &str, pid, comm: &str, cpu, n| CallTally {
            function: function.to_owned(),
            kind: CallKind::of_function(function, false),
            pid,
            comm: comm.to_owned(),
            cpu,
            calls: n,
            timed: n,
            delay_ns: n * 2000,
            delay_max_ns: 9000,
            stall_ns: n * 500,
            stall_max_ns: 800 + u64::from(cpu),
        };
        let mut untimed = call("nohz_full_kick_func", 0, "(idle)", 3, 4);
        untimed.timed = 0;
        untimed.kind = CallKind::IrqWork;
        FunctionCalls {
            by: vec![
                call("ipi_mb", 71, "java", 3, 1000),
                call("ipi_mb", 71, "java", 1, 1200),
                call("ipi_mb", 71, "java", 2, 1000),
                call("do_sync_core", 1, "systemd", 3, 2),
                untimed,
            ],
            at: vec![CallVictim {
                function: "ipi_mb".into(),
                kind: CallKind::Membarrier,
                pid: 90,
                comm: "trader".into(),
                hits: 1000,
                stall_ns: 500_000,
            }],
            lost: 3,
            own: 12,
        }
    }

    /// Check the tables: one row for each function and culprit over its CPUs, no times where there are none, and the notes
    /// about missing calls.
    #[test]
    fn rows_are_printed() {
        let mut out = String::new();
        write_calls(&mut out, &calls(), 2);
        let plain = anstream::adapter::strip_str(&out).to_string();
        insta::assert_snapshot!(plain);
        let mut all = String::new();
        write_calls(&mut all, &calls(), 9);
        let plain = anstream::adapter::strip_str(&all).to_string();
        let kick = plain.lines().find(|l| l.contains("nohz_full")).unwrap();
        assert_eq!(
            kick.split_whitespace().take(4).collect::<Vec<_>>(),
            ["4", "-", "-", "-"]
        );
    }

    /// Check that without any call the text says so in one line.
    #[test]
    fn nothing_is_said() {
        let mut out = String::new();
        write_calls(&mut out, &FunctionCalls::default(), 5);
        let plain = anstream::adapter::strip_str(&out).to_string();
        assert!(plain.contains("0 calls"), "{plain}");
    }
}
