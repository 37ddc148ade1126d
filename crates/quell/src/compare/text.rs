//! A comparison as text.

use std::fmt::Write as _;

use quell_event::tally_summary::Quantiles;

use super::Comparison;
use super::accounts::{ComparedAccounts, are_apart};
use super::change::{ComparedRow, Presence, relative_change};
use crate::show::style::{BOLD, DIM, heading};
use crate::show::table::{Table, clean, plain, say_how_many_more};
use crate::show::units::{self, count, percent, rate_per_second, time, time_or_dash, time_rate};

/// The line that every comparison of two recordings ends with.
const NO_CLAIM: &str = "One recording of each is no proof of better or worse: \
                        'quell prove' runs in pairs and gives intervals.";

/// The whole text. Each table has at most `top` rows, and says how many it leaves out.
pub(crate) fn comparison_text(c: &Comparison, top: usize) -> String {
    let mut out = String::new();
    // Writing to a String does not fail.
    for (name, side) in [("A", &c.a), ("B", &c.b)] {
        let (title, backend) = (&side.title, &side.summary.backend);
        let _ = writeln!(
            out,
            "{BOLD}{name}{BOLD:#}  {}, {title} {DIM}({backend}, {}){DIM:#}",
            side.path,
            time(side.summary.duration_ns),
        );
    }
    write_accounts(&mut out, c, top);
    write_totals(&mut out, c);
    write_quantiles(&mut out, c);
    write_table(&mut out, c, "Why: causes", "cause", &c.causes, top);
    let who = "Who: culprits, all processes of a name together";
    write_table(&mut out, c, who, "name", &c.culprits, top);
    // Threads get a table only where their names differ from those of the processes.
    if sorted_names(&c.threads) != sorted_names(&c.culprits) {
        let who = "Who: threads, all of a name together";
        write_table(&mut out, c, who, "name", &c.threads, top);
    }
    write_table(&mut out, c, "Where: regions", "region", &c.regions, top);
    write_stacks(&mut out, c, top);
    out.push('\n');
    for note in &c.notes {
        let _ = writeln!(out, "{}", plain(note));
    }
    let _ = writeln!(out, "{NO_CLAIM}");
    out
}

fn sorted_names(rows: &[ComparedRow<String>]) -> Vec<&String> {
    let mut names: Vec<_> = rows.iter().map(|r| &r.key).collect();
    names.sort();
    names
}

/// The change of an amount in words; empty where neither side has any.
fn change_text(a: f64, b: f64) -> String {
    match relative_change(a, b) {
        _ if a == 0.0 && b == 0.0 => String::new(),
        None => Presence::New.name().to_owned(),
        Some(_) if b == 0.0 => Presence::Gone.name().to_owned(),
        Some(0.0) => "same".to_owned(),
        Some(change) if change.abs() < 0.0005 => "±0 %".to_owned(),
        // Beyond that a percentage is hard to read.
        Some(change) if change >= 9.0 => format!("×{}", count((change + 1.0).round() as u64)),
        Some(change) if change > 0.0 => format!("+{}", percent(change)),
        Some(change) => format!("−{}", percent(-change)),
    }
}

/// Writes the table of time, which comes first because people care about it most.
fn write_accounts(out: &mut String, c: &Comparison, top: usize) {
    let Some(accounts) = ComparedAccounts::of_sides(&c.a, &c.b) else {
        return;
    };
    heading(out, "Where the time goes");
    let mut t = Table::new(&[
        ">A CPU time",
        ">B CPU time",
        ">change",
        ">A asleep",
        ">B asleep",
        ">change",
        "mechanism",
    ]);
    // A change of sampled time that sampling alone may explain stands in brackets.
    let mut in_brackets = false;
    let mut changed = |a: u64, b: u64, apart: bool| match change_text(a as f64, b as f64) {
        change if apart || change.is_empty() || a == b => change,
        change => {
            in_brackets = true;
            format!("({change})")
        }
    };
    let (a, b) = (accounts.a, accounts.b);
    let mut row = |cpu: [u64; 2], apart: bool, blocked: [u64; 2], name: &str| {
        t.row(vec![
            time_or_dash(cpu[0]),
            time_or_dash(cpu[1]),
            changed(cpu[0], cpu[1], apart),
            time_or_dash(blocked[0]),
            time_or_dash(blocked[1]),
            change_text(blocked[0] as f64, blocked[1] as f64),
            name.to_owned(),
        ]);
    };
    row(
        [a.cpu_ns, b.cpu_ns],
        true,
        [0, 0],
        "all that the program did",
    );
    row(
        [a.memory_cpu_ns, b.memory_cpu_ns],
        are_apart(a.memory_cpu_ci95, b.memory_cpu_ci95),
        [a.blocked_ns, b.blocked_ns],
        "memory management",
    );
    for m in accounts.mechanisms.iter().take(top) {
        row(
            [m.a.cpu_ns, m.b.cpu_ns],
            m.is_apart(),
            [m.a.blocked_ns, m.b.blocked_ns],
            m.mechanism.name(),
        );
    }
    out.push_str(&t.text());
    say_how_many_more(out, accounts.mechanisms.len(), top);
    if in_brackets {
        let _ = writeln!(
            out,
            "  {DIM}in brackets: sampling alone may make such a difference{DIM:#}"
        );
    }
}

fn write_totals(out: &mut String, c: &Comparison) {
    heading(out, "How much");
    let (long_a, long_b) = (c.a.summary.duration_ns, c.b.summary.duration_ns);
    let mut t = Table::new(&[
        "",
        ">A",
        ">B",
        ">change",
        ">A a second",
        ">B a second",
        ">change",
    ]);
    let (a, b) = (&c.total.a, &c.total.b);
    let victims = (a.victims.unwrap_or(0), b.victims.unwrap_or(0));
    let wait = (a.wait_ns.unwrap_or(0), b.wait_ns.unwrap_or(0));
    let stall = (a.stall_ns.unwrap_or(0), b.stall_ns.unwrap_or(0));
    for (name, (a, b), is_time) in [
        ("shootdowns", (a.shootdowns, b.shootdowns), false),
        ("victims", victims, false),
        ("wait of culprits", wait, true),
        ("stall of victims", stall, true),
    ] {
        let amount = |n| if is_time { time(n) } else { count(n) };
        let each = |n, long| {
            if is_time {
                time_rate(n, long)
            } else {
                units::rate(n, long)
            }
        };
        t.row(vec![
            name.to_owned(),
            amount(a),
            amount(b),
            change_text(a as f64, b as f64),
            each(a, long_a),
            each(b, long_b),
            change_text(rate_per_second(a, long_a), rate_per_second(b, long_b)),
        ]);
    }
    out.push_str(&t.text());
}

/// Writes the quantiles of each kind of time: a line for each trace, and one for the change.
fn write_quantiles(out: &mut String, c: &Comparison) {
    heading(out, "How long each");
    let mut t = Table::new(&["", "", ">p50", ">p99", ">p99.9", ">max"]);
    let (a, b) = (&c.a.summary, &c.b.summary);
    for (name, a, b) in [
        ("wait", a.wait_ns, b.wait_ns),
        ("delay", a.delay_ns, b.delay_ns),
        ("stall", a.stall_ns, b.stall_ns),
    ] {
        for (name, side, q) in [(name, "A", a), ("", "B", b)] {
            let mut cells = vec![name.to_owned(), side.to_owned()];
            cells.extend(quantile_values(&q).map(time));
            t.row(cells);
        }
        let mut cells = vec![String::new(); 2];
        let pairs = quantile_values(&a).into_iter().zip(quantile_values(&b));
        cells.extend(pairs.map(|(a, b)| change_text(a as f64, b as f64)));
        t.row(cells);
    }
    out.push_str(&t.text());
}

fn quantile_values(q: &Quantiles) -> [u64; 4] {
    [q.p50, q.p99, q.p999, q.max]
}

/// The figures of a row, without its name.
fn row_cells<K>(c: &Comparison, row: &ComparedRow<K>) -> [String; 5] {
    let (long_a, long_b) = (c.a.summary.duration_ns, c.b.summary.duration_ns);
    let (a, b) = (row.a.shootdowns, row.b.shootdowns);
    let became = match row.state {
        Presence::Both => change_text(rate_per_second(a, long_a), rate_per_second(b, long_b)),
        state => state.name().to_owned(),
    };
    [
        count(a),
        count(b),
        units::rate(a, long_a),
        units::rate(b, long_b),
        became,
    ]
}

fn write_table(
    out: &mut String,
    c: &Comparison,
    title: &str,
    what: &str,
    rows: &[ComparedRow<String>],
    top: usize,
) {
    if rows.is_empty() {
        return;
    }
    heading(out, title);
    let mut t = Table::new(&[">A", ">B", ">A a second", ">B a second", ">change", what]);
    for row in rows.iter().take(top) {
        let mut cells = row_cells(c, row).to_vec();
        cells.push(row.key.clone());
        t.row(cells);
    }
    out.push_str(&t.text());
    write_rest(out, &rows[rows.len().min(top)..]);
}

fn write_stacks(out: &mut String, c: &Comparison, top: usize) {
    if c.stacks.is_empty() {
        return;
    }
    heading(out, "From which code: user stacks, innermost first");
    // A stack takes many lines, so there are a third as many as rows of a table.
    let top = top.div_ceil(3);
    for row in c.stacks.iter().take(top) {
        let figures = row_cells(c, row);
        let [a, b, a_rate, b_rate, became] = &figures;
        let _ = writeln!(
            out,
            "  A {a} ({a_rate} a second), B {b} ({b_rate} a second): {became}"
        );
        for frame in &row.key {
            let _ = writeln!(out, "      {}", clean(frame));
        }
    }
    write_rest(out, &c.stacks[c.stacks.len().min(top)..]);
}

/// Writes how many rows a table leaves out.
fn write_rest<K>(out: &mut String, rest: &[ComparedRow<K>]) {
    if rest.is_empty() {
        return;
    }
    let sum = |of: fn(&ComparedRow<K>) -> u64| count(rest.iter().map(of).sum());
    let _ = writeln!(
        out,
        "  {DIM}and {} more: A {}, B {}{DIM:#}",
        count(rest.len() as u64),
        sum(|r| r.a.shootdowns),
        sum(|r| r.b.shootdowns),
    );
}
