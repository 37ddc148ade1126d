//! A comparison as text.

use std::fmt::Write as _;

use quell_lab::judge::LabVerdict;
use quell_lab::summary::{ExperimentSummary, IntervalSummary};

use super::{BothSides, Comparison, EffectChange, ExperimentPair, RatioedFigures};
use crate::lab::text::{format_per_op, format_signed, verdict_word};
use crate::show::style::BOLD;
use crate::show::table::{Table, plain};
use crate::show::units::{plural, time};

/// The whole text.
pub(crate) fn comparison_text(c: &Comparison<'_>) -> String {
    let mut out = String::new();
    for (side, files) in [("A", &c.files.a), ("B", &c.files.b)] {
        for file in files {
            let n = plural(file.experiments as u64, "experiment");
            // Writing to a String does not fail.
            let _ = writeln!(out, "{BOLD}{side}{BOLD:#}  {}: {n}", plain(file.path));
        }
    }
    for pair in &c.pairs {
        write_pair(&mut out, pair, c.pairs.len());
    }
    for (side, names) in [("A", &c.only.a), ("B", &c.only.b)] {
        if !names.is_empty() {
            let _ = writeln!(out, "\nonly in {side}: {}", plain(&names.join(", ")));
        }
    }
    out
}

fn write_pair(out: &mut String, pair: &ExperimentPair<'_>, family: usize) {
    let (change, why) = pair.claimed_change(family);
    let said = match change {
        EffectChange::More => "more stall in B",
        EffectChange::Less => "less stall in B",
        EffectChange::None => "no change is claimed",
    };
    let name = plain(&pair.a.first.experiment);
    let _ = writeln!(out, "\n{BOLD}{name}{BOLD:#}: {said}: {why}");
    for condition in pair.differing_conditions() {
        let _ = writeln!(out, "{}", condition.describe(""));
    }
    for condition in pair.unlike_runs() {
        let _ = writeln!(out, "{}", condition.describe(" in the runs of one side"));
    }
    let mut table = Table::new(&["", ">A", ">B", ">B/A"]);
    let mut row = |what: &str, sides: BothSides<String>, ratio: Option<f64>| {
        let ratio = ratio.map_or_else(String::new, format_ratio);
        table.row(vec![what.to_owned(), sides.a, sides.b, ratio]);
    };
    let words = |of: fn(&ExperimentSummary) -> LabVerdict| {
        pair.map(|runs| {
            let mut all: Vec<_> = runs.iter().map(|s| verdict_word(of(s))).collect();
            all.dedup();
            all.join(", ")
        })
    };
    row("verdict", words(|s| s.verdict), None);
    row("control", words(|s| s.sham_verdict), None);
    let cell = |n: Option<f64>, format: FigureFormat| n.map_or_else(|| "-".to_owned(), format);
    let cost = pair.stall_ns_per_op();
    let sides = cost.sides.map(|n| cell(*n, format_ns));
    row("stall for one operation", sides, cost.ratio);
    let has_more_runs = pair.a.len() > 1 || pair.b.len() > 1;
    if has_more_runs {
        let each = pair.map(|runs| {
            let costs = runs.iter().map(ExperimentSummary::stall_ns_per_op);
            let cells: Vec<_> = costs.map(|n| cell(n, format_ns)).collect();
            cells.join(", ")
        });
        row("  each run", each, None);
    }
    let stall = pair.stall_ppm();
    row(
        if has_more_runs {
            "stall of the first runs, ppm"
        } else {
            "stall, ppm"
        },
        stall.sides.map(|ppm| format_signed(ppm.difference)),
        stall.ratio,
    );
    row("  95 % within a run", stall.sides.map(format_range), None);
    let figures: [(&str, RatioedFigures<Option<f64>>, FigureFormat); 4] = [
        ("shootdowns/op", pair.shootdowns_per_op(), format_per_op),
        ("each event costs", pair.ns_per_event(), format_ns),
        ("turn p99.9, real", pair.turn_p999_ns(), format_ns),
        ("op p50, real", pair.op_p50_ns(), format_ns),
    ];
    for (what, figures, format) in figures {
        let sides = figures.sides.map(|n| cell(*n, format));
        row(what, sides, figures.ratio);
    }
    out.push_str(&table.text());
}

type FigureFormat = fn(f64) -> String;

fn format_ns(n: f64) -> String {
    time(n.round() as u64)
}

fn format_ratio(ratio: f64) -> String {
    match ratio {
        r if r.abs() >= 100.0 => format!("{r:.0}"),
        r if r.abs() >= 10.0 => format!("{r:.1}"),
        r => format!("{r:.2}"),
    }
}

fn format_range(i: &IntervalSummary) -> String {
    let end = |e: Option<f64>| e.map_or_else(|| "?".to_owned(), format_signed);
    format!("{} to {}", end(i.ci95.0), end(i.ci95.1))
}
