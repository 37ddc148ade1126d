//! A comparison as text.

use std::fmt::Write as _;

use quell_lab::summary::Interval;

use super::{Change, Comparison, Figure, Pair};
use crate::lab::text::{per_op, signed, word};
use crate::show::style::BOLD;
use crate::show::table::{Table, plain};
use crate::show::units::{plural, time};

/// The whole text.
pub(crate) fn text(c: &Comparison<'_>) -> String {
    let mut out = String::new();
    let many = [("A", &c.a, c.many.0), ("B", &c.b, c.many.1)];
    for (side, path, n) in many {
        let n = plural(n as u64, "experiment");
        // writing to a String does not fail
        let _ = writeln!(out, "{BOLD}{side}{BOLD:#}  {}: {n}", plain(path));
    }
    for pair in &c.pairs {
        one(&mut out, pair);
    }
    for (side, names) in [("A", &c.only_a), ("B", &c.only_b)] {
        if !names.is_empty() {
            let _ = writeln!(out, "\nonly in {side}: {}", plain(&names.join(", ")));
        }
    }
    out
}

fn one(out: &mut String, pair: &Pair<'_>) {
    let (change, why) = pair.change();
    let said = match change {
        Change::More => "more stall in B",
        Change::Less => "less stall in B",
        Change::None => "no change is claimed",
    };
    let name = plain(&pair.a.experiment);
    let _ = writeln!(out, "\n{BOLD}{name}{BOLD:#}: {said}: {why}");
    for d in pair.differs() {
        let line = format!("  the {} is not the same: {} and {}", d.what, d.a, d.b);
        let _ = writeln!(out, "{}", plain(&line));
    }
    let mut table = Table::new(&["", ">A", ">B", ">B/A"]);
    let mut row = |what: &str, a: String, b: String, ratio: Option<f64>| {
        table.row(vec![
            what.to_owned(),
            a,
            b,
            ratio.map_or_else(String::new, times),
        ]);
    };
    let (a, b) = (pair.a, pair.b);
    row(
        "verdict",
        word(a.verdict).to_owned(),
        word(b.verdict).to_owned(),
        None,
    );
    let sham = |s: &quell_lab::summary::Summary| word(s.sham_verdict).to_owned();
    row("control", sham(a), sham(b), None);
    let (stall_a, stall_b) = (pair.stall(a), pair.stall(b));
    row(
        "stall, ppm",
        signed(stall_a.difference),
        signed(stall_b.difference),
        pair.stall_ratio(),
    );
    row("  95 %", interval(&stall_a), interval(&stall_b), None);
    let figures: [(&str, Figure, Told); 4] = [
        ("shootdowns/op", pair.shootdowns_per_op(), per_op),
        ("each event costs", pair.ns_per_event(), ns),
        ("turn p99.9, real", pair.turn_p999_ns(), ns),
        ("op p50, real", pair.op_p50_ns(), ns),
    ];
    for (what, figure, told) in figures {
        let side = |n: Option<f64>| n.map_or_else(|| "-".to_owned(), told);
        row(what, side(figure.a), side(figure.b), figure.ratio);
    }
    out.push_str(&table.text());
}

/// How a figure is told.
type Told = fn(f64) -> String;

fn ns(n: f64) -> String {
    time(n.round() as u64)
}

fn times(ratio: f64) -> String {
    match ratio {
        r if r.abs() >= 100.0 => format!("{r:.0}"),
        r if r.abs() >= 10.0 => format!("{r:.1}"),
        r => format!("{r:.2}"),
    }
}

fn interval(i: &Interval) -> String {
    let end = |e: Option<f64>| e.map_or_else(|| "?".to_owned(), signed);
    format!("{} to {}", end(i.ci95.0), end(i.ci95.1))
}
