//! A comparison as text.

use std::fmt::Write as _;

use quell_lab::summary::{ExperimentSummary, IntervalSummary};

use super::{Change, Comparison, Figure, Pair};
use crate::lab::text::{per_op, signed, word};
use crate::show::style::BOLD;
use crate::show::table::{Table, plain};
use crate::show::units::{plural, time};

/// The whole text.
pub(crate) fn comparison_text(c: &Comparison<'_>) -> String {
    let mut out = String::new();
    for (side, files) in [("A", &c.a), ("B", &c.b)] {
        for file in files {
            let n = plural(file.experiments as u64, "experiment");
            // writing to a String does not fail
            let _ = writeln!(out, "{BOLD}{side}{BOLD:#}  {}: {n}", plain(file.path));
        }
    }
    for pair in &c.pairs {
        one(&mut out, pair, c.pairs.len());
    }
    for (side, names) in [("A", &c.only_a), ("B", &c.only_b)] {
        if !names.is_empty() {
            let _ = writeln!(out, "\nonly in {side}: {}", plain(&names.join(", ")));
        }
    }
    out
}

/// Whether a side has several.
fn has_more_runs(pair: &Pair<'_>) -> bool {
    !pair.more_a.is_empty() || !pair.more_b.is_empty()
}

fn one(out: &mut String, pair: &Pair<'_>, family: usize) {
    let (change, why) = pair.change(family);
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
    for d in pair.not_alike() {
        let line = format!(
            "  the {} is not the same in the runs of one side: {} and {}",
            d.what, d.a, d.b
        );
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
    let words = |all: Vec<&'static str>| {
        let mut all = all;
        all.dedup();
        all.join(", ")
    };
    let verdict = |s: &ExperimentSummary| word(s.verdict);
    row(
        "verdict",
        words(pair.runs_a().map(verdict).collect()),
        words(pair.runs_b().map(verdict).collect()),
        None,
    );
    let sham = |s: &ExperimentSummary| word(s.sham_verdict);
    row(
        "control",
        words(pair.runs_a().map(sham).collect()),
        words(pair.runs_b().map(sham).collect()),
        None,
    );
    let cost = pair.stall_ns_per_op();
    let side = |n: Option<f64>| n.map_or_else(|| "-".to_owned(), ns);
    row(
        "stall for one operation",
        side(cost.a),
        side(cost.b),
        cost.ratio,
    );
    let each = |all: Vec<Option<f64>>| all.into_iter().map(side).collect::<Vec<_>>().join(", ");
    if has_more_runs(pair) {
        row(
            "  each run",
            each(
                pair.runs_a()
                    .map(ExperimentSummary::stall_ns_per_op)
                    .collect(),
            ),
            each(
                pair.runs_b()
                    .map(ExperimentSummary::stall_ns_per_op)
                    .collect(),
            ),
            None,
        );
    }
    let (stall_a, stall_b) = (pair.stall(a), pair.stall(b));
    row(
        if has_more_runs(pair) {
            "stall of the first runs, ppm"
        } else {
            "stall, ppm"
        },
        signed(stall_a.difference),
        signed(stall_b.difference),
        pair.stall_ratio(),
    );
    row(
        "  95 % within a run",
        interval(&stall_a),
        interval(&stall_b),
        None,
    );
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

/// A format of a figure.
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

fn interval(i: &IntervalSummary) -> String {
    let end = |e: Option<f64>| e.map_or_else(|| "?".to_owned(), signed);
    format!("{} to {}", end(i.ci95.0), end(i.ci95.1))
}
