//! An experiment as text.

use std::fmt::Write as _;

use quell_event::Backtraces;
use quell_lab::arm::Arm;
use quell_lab::arm::VictimActivity;
use quell_lab::attribute::GapClass;
use quell_lab::judge::LabVerdict;
use quell_lab::summary::{ExperimentSummary, IntervalSummary, MachineSummary};
use quell_lab::tsc::TscQuality;
use quell_page::lab::{Beside, Figure};

use super::document_figures::document_figures;
use crate::show::style::{BOLD, heading};
use crate::show::table::{Table, plain};
use crate::show::units::{count, percent, time};

/// The verdict in words for people.
pub(super) fn verdict_word(verdict: LabVerdict) -> &'static str {
    match verdict {
        LabVerdict::Shown => "shown",
        LabVerdict::NotShown => "not shown",
        LabVerdict::TooNoisy => "this machine is too noisy",
        LabVerdict::TooShort => "the time was too short",
    }
}

/// Writes a whole number with commas, and its sign where it is below zero.
fn format_thousands(n: f64) -> String {
    let sign = if n.round() < 0.0 { "-" } else { "" };
    format!("{sign}{}", count(n.abs().round() as u64))
}

/// The same for a difference, which has a sign in any case.
pub(super) fn format_signed(n: f64) -> String {
    let sign = if n < 0.0 { '-' } else { '+' };
    format!("{sign}{}", count(n.abs().round() as u64))
}

/// The kernel and the CPU of a machine.
pub(super) fn machine_line(machine: &MachineSummary) -> String {
    format!(
        "Linux {}, {}{}",
        plain(&machine.kernel),
        plain(&machine.cpu),
        if machine.virtual_machine {
            ", in a virtual machine"
        } else {
            ""
        }
    )
}

/// The line of an experiment in the table of all.
pub(crate) fn experiment_row(summary: &ExperimentSummary) -> Vec<String> {
    let real = summary.arms.get(Arm::Real.name());
    vec![
        plain(&summary.experiment),
        verdict_word(summary.verdict).to_owned(),
        verdict_word(summary.sham_verdict).to_owned(),
        summary
            .shootdowns_per_op
            .map_or_else(String::new, format_per_op),
        summary
            .faults_per_op
            .filter(|f| *f > 0.0)
            .map_or_else(String::new, format_per_op),
        format_thousands(summary.effect.stall_ppm.difference),
        summary
            .effect
            .ns_per_event
            .map_or_else(String::new, |ns| time(ns.round() as u64)),
        real.and_then(|r| r.op_ns)
            .map_or_else(String::new, |(p50, _)| time(p50)),
    ]
}

pub(super) fn format_per_op(n: f64) -> String {
    match n {
        n if n >= 100.0 => format!("{n:.0}"),
        n if n >= 10.0 => format!("{n:.1}"),
        n => format!("{n:.3}"),
    }
}

/// Takes the characters that a terminal acts on out of a summary that may come from somebody else's file.
fn clean_summary(summary: &ExperimentSummary) -> ExperimentSummary {
    let mut summary = summary.clone().without_pictures();
    let ExperimentSummary {
        experiment,
        about,
        note,
        why,
        sham_why,
        machine,
        backtraces,
        ..
    } = &mut summary;
    let texts = [
        experiment,
        about,
        why,
        sham_why,
        &mut machine.kernel,
        &mut machine.cpu,
    ];
    let sides = backtraces.iter_mut();
    let sides = sides.flat_map(|b| b.culprit.iter_mut().chain(&mut b.victim));
    for text in texts.into_iter().chain(note).chain(sides) {
        *text = plain(text);
    }
    summary
}

/// One experiment as text.
pub(crate) fn experiment_text(summary: &ExperimentSummary) -> String {
    let summary = &clean_summary(summary);
    let mut out = String::new();
    let given: Vec<String> = summary
        .params
        .iter()
        .map(|(name, value)| format!("{}={value}", plain(name)))
        .collect();
    let given = if given.is_empty() {
        String::new()
    } else {
        format!(" ({})", given.join(", "))
    };
    let m = &summary.machine;
    // Writing to a String does not fail.
    let _ = writeln!(
        out,
        "{BOLD}{}{BOLD:#}: {}{given}",
        summary.experiment, summary.about
    );
    if let Some(note) = &summary.note {
        let _ = writeln!(out, "note: {note}");
    }
    let _ = writeln!(
        out,
        "victim on CPU {}, culprit on CPU {}; {}{}",
        m.victim_cpu,
        m.culprit_cpu,
        machine_line(m),
        match m.counter {
            TscQuality::Promised => "",
            TscQuality::Measured => "; its time stamp counter promises no rate, and was measured",
        }
    );
    heading(
        &mut out,
        "Arms (stall: the victim's time in gaps of the culprit's, not the time in the handler)",
    );
    out.push_str(&arms_table(summary));
    if summary.victim == VictimActivity::Spin {
        heading(
            &mut out,
            "Gaps a second, by cause, and their share of the victim's time in ppm",
        );
        out.push_str(&classes_table(summary));
    }
    heading(&mut out, "Effect");
    out.push_str(&effect_rows(summary));
    if let Some(beside) = document_figures(summary) {
        heading(&mut out, "Beside the document");
        out.push_str(&document_text(&beside));
    }
    if let Some(sides) = &summary.backtraces {
        heading(
            &mut out,
            &format!("Both sides of {} shootdowns", count(sides.shootdowns)),
        );
        out.push_str(&backtraces_table(sides));
    }
    let _ = writeln!(
        out,
        "\n{BOLD}{}{BOLD:#}: {}\n  control in another address space: {}: {}",
        verdict_word(summary.verdict),
        summary.why,
        verdict_word(summary.sham_verdict),
        summary.sham_why
    );
    if summary.interrupted {
        let _ = writeln!(out, "  it was interrupted: this is what was known by then");
    }
    out
}

/// The figures of a document beside those that were measured, and where and why they differ.
fn document_text(beside: &Beside) -> String {
    let mut table = Table::new(&["", "document", "here"]);
    for Figure {
        what,
        document,
        here,
    } in &beside.figures
    {
        table.row(vec![
            (*what).to_owned(),
            (*document).to_owned(),
            here.clone(),
        ]);
    }
    format!(
        "{}\n{}  {}\n",
        beside.document,
        table.text(),
        beside.differs
    )
}

/// The kernel's functions, innermost first: the culprit's on the left, the victim's on the right.
fn backtraces_table(sides: &Backtraces) -> String {
    let mut table = Table::new(&["culprit", "victim"]);
    for i in 0..sides.culprit.len().max(sides.victim.len()) {
        let at = |side: &[String]| side.get(i).cloned().unwrap_or_default();
        table.row(vec![at(&sides.culprit), at(&sides.victim)]);
    }
    table.text()
}

const ARM_HEADINGS: [&str; 13] = [
    "arm",
    ">blocks",
    ">invalid",
    ">ran",
    ">ops/s",
    ">op p50",
    ">op p99",
    ">turn p50",
    ">p99.9",
    ">p99.99",
    ">shootdowns/s",
    ">faults/s",
    ">stall ppm",
];

fn arms_table(summary: &ExperimentSummary) -> String {
    let mut table = Table::new(&ARM_HEADINGS);
    for (which, arm) in summary.arms_in_order() {
        let name = which.name();
        let seconds = (arm.ran_ns.max(1)) as f64 / 1e9;
        let whole = arm.ran_ns.saturating_add(arm.away_ns).max(1) as f64;
        let rate = |n: u64| count((n as f64 / seconds).round() as u64);
        // Without the probe nobody knows it.
        let seen = |text: String| {
            if which == Arm::Untraced {
                String::new()
            } else {
                text
            }
        };
        if arm.blocks == 0 {
            let mut row = vec![
                name.to_owned(),
                "0".to_owned(),
                arm.all_invalid().to_string(),
            ];
            // Nothing is known of an arm without a valid block.
            row.resize(ARM_HEADINGS.len(), "-".to_owned());
            table.row(row);
            continue;
        }
        let percentile = |p: &str| arm.turn_ns.get(p).map_or_else(String::new, |ns| time(*ns));
        table.row(vec![
            name.to_owned(),
            arm.blocks.to_string(),
            arm.all_invalid().to_string(),
            seen(percent(arm.ran_ns as f64 / whole)),
            count((arm.ops as f64 / (whole / 1e9)).round() as u64),
            arm.op_ns.map_or_else(String::new, |(p50, _)| time(p50)),
            arm.op_ns.map_or_else(String::new, |(_, p99)| time(p99)),
            percentile("p50"),
            percentile("p999"),
            percentile("p9999"),
            seen(rate(arm.caused)),
            seen(rate(arm.faults)),
            seen(format_thousands(arm.stall_ppm)),
        ]);
    }
    table.text()
}

fn classes_table(summary: &ExperimentSummary) -> String {
    let mut headings = vec!["arm".to_owned()];
    for class in GapClass::ALL {
        headings.push(format!(">{}", class.name()));
        headings.push(">ppm".to_owned());
    }
    let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
    let mut table = Table::new(&headings);
    let arms = summary.arms_in_order();
    for (which, arm) in arms.filter(|(which, _)| *which != Arm::Untraced) {
        let mut row = vec![which.name().to_owned()];
        if arm.blocks == 0 {
            row.resize(headings.len(), "-".to_owned());
            table.row(row);
            continue;
        }
        for class in GapClass::ALL {
            row.push(format_thousands(arm.class_rate(class)));
            row.push(format_thousands(arm.class_ppm(class)));
        }
        table.row(row);
    }
    table.text()
}

fn format_interval(i: &IntervalSummary) -> String {
    if i.signs.1 == 0 {
        return "not known: no round counts".to_owned();
    }
    let end = |e: Option<f64>| e.map_or_else(|| "?".to_owned(), format_thousands);
    format!(
        "{} ppm ({} to {}), more in {} of {} rounds",
        format_signed(i.difference),
        end(i.ci95.0),
        end(i.ci95.1),
        i.signs.0,
        i.signs.1
    )
}

fn effect_rows(summary: &ExperimentSummary) -> String {
    let mut table = Table::new(&["", ""]);
    let mut say = |what: &str, value: String| table.row(vec![what.to_owned(), value]);
    let e = &summary.effect;
    // A victim that sleeps has no gaps.
    let spun = summary.victim == VictimActivity::Spin;
    if spun {
        say(
            "stall that the culprit caused",
            format_interval(&e.stall_ppm),
        );
        say(
            "all gaps, whatever their cause",
            format_interval(&e.all_gaps_ppm),
        );
        if let Some(sham) = &e.sham_all_gaps_ppm {
            say("the same, sham less idle", format_interval(sham));
        }
    }
    if let Some(n) = summary.shootdowns_per_op {
        let expected = summary
            .expected_per_op
            .map_or_else(String::new, |n| format!(", {n:.0} expected"));
        say(
            "shootdowns at the victim",
            format!("{} an operation{expected}", format_per_op(n)),
        );
    }
    if let Some(n) = summary.faults_per_op.filter(|n| *n > 0.0) {
        say(
            "faults of the victim",
            format!("{} an operation", format_per_op(n)),
        );
    }
    if let Some(ns) = e.ns_per_event.filter(|_| spun) {
        let middle = e.gap_p50_ns.map_or_else(String::new, |ns| {
            format!("; half of the gaps are below {}", time(ns.round() as u64))
        });
        say(
            "each costs the victim",
            format!(
                "{} (mean of the shootdowns and faults that lie in a gap{middle})",
                time(ns.round() as u64)
            ),
        );
    }
    if let Some(share) = summary.matched.filter(|_| spun) {
        say(
            "shootdowns that lie in a gap",
            format!("{}, the rest is unexplained", percent(share)),
        );
    }
    if spun {
        say(
            "without the probe, short gaps",
            format_interval(&e.untraced_ppm),
        );
    }
    let text = table.text();
    // The headings are empty, so their line goes.
    text.split_once('\n')
        .map_or_else(String::new, |(_, rows)| rows.to_owned())
}

#[cfg(test)]
#[path = "text_tests.rs"]
mod tests;
