//! The proof as text: the plan, the table, the verdict, reasons for missing evidence, and the way to keep the plan.

use std::fmt::Write as _;
use std::path::Path;

use anstyle::{AnsiColor, Style};
use quell_event::account::AccountSummary;
use quell_event::text::clean_text;
use quell_stats::{Comparison, MetricRole, Verdict};

use super::proof::{JudgedMetric, Proof};
use super::tried::TriedChange;
use crate::plan;
use crate::show;
use crate::show::account::account_headline;
use crate::show::command::{command_title, shell_words};
use crate::show::lines::{bullet_list, wrap};
use crate::show::style::BOLD;
use crate::show::table::Table;
use crate::show::units::{percent, ratio_as_change, time};

fn styled_verdict(verdict: Verdict) -> String {
    let style = match verdict {
        Verdict::Better => Style::new().fg_color(Some(AnsiColor::Green.into())),
        Verdict::Worse => Style::new().fg_color(Some(AnsiColor::Red.into())),
        Verdict::NoEvidence => Style::new().dimmed(),
    };
    format!("{style}{verdict}{style:#}")
}

fn ci95_text(c: &Comparison) -> String {
    match c.ci95 {
        (low, high) if low.is_finite() && high.is_finite() => {
            format!("{} to {}", ratio_as_change(low), ratio_as_change(high))
        }
        _ => "unknown".to_owned(),
    }
}

/// The table of all metrics, before and after.
pub(crate) fn metrics_table(metrics: &[JudgedMetric]) -> String {
    let mut t = Table::new(&["", ">before", ">after", ">change", ">95 % interval", ""]);
    for j in metrics {
        let c = &j.comparison;
        let unit = j.metric.unit;
        t.row(vec![
            j.metric.title.clone(),
            unit.format_value(c.median_before),
            unit.format_value(c.median_after),
            ratio_as_change(c.ratio),
            ci95_text(c),
            styled_verdict(c.verdict),
        ]);
    }
    t.text()
}

/// The titles of these metrics, each with its change.
fn titles_with_change(metrics: &[JudgedMetric], names: &[String]) -> String {
    let title = |name: &String| {
        let known = metrics.iter().find(|j| &j.metric.name == name);
        known.map_or_else(
            || name.clone(),
            |j| {
                format!(
                    "{} {}",
                    j.metric.name_in_text(),
                    ratio_as_change(j.comparison.ratio)
                )
            },
        )
    };
    names.iter().map(title).collect::<Vec<_>>().join(", ")
}

/// The verdict in words, with the price.
pub(crate) fn verdict_text(proof: &Proof) -> String {
    let all = &proof.overall;
    let (price, worse): (Vec<String>, Vec<String>) = all
        .worse
        .iter()
        .cloned()
        .partition(|name| proof.role_of(name) == Some(MetricRole::Cost));
    let mut text = all.verdict.to_string();
    if let Some(why) = &proof.nothing {
        let _ = write!(text, ": {why}");
        return text;
    }
    if proof.is_no_faster() {
        return no_faster(proof, &worse, &price);
    }
    let better = (Verdict::Better, &in_order(proof, &all.better));
    let worse = (Verdict::Worse, &worse);
    // The metrics that carry the verdict come first.
    let parts = if all.verdict == Verdict::Worse {
        [worse, better]
    } else {
        [better, worse]
    };
    for (word, names) in parts.iter().filter(|(_, names)| !names.is_empty()) {
        let list = titles_with_change(&proof.metrics, names);
        let _ = if *word == all.verdict {
            write!(text, ": {list}")
        } else {
            write!(text, "; {word}: {list}")
        };
    }
    if !price.is_empty() {
        let _ = write!(
            text,
            "; the price: {}",
            titles_with_change(&proof.metrics, &price)
        );
    }
    if all.verdict == Verdict::NoEvidence && all.better.is_empty() && all.worse.is_empty() {
        text.push_str(" that anything changed, which is no proof that nothing did");
    }
    text
}

/// The names of objectives first, then those that explain them.
fn in_order(proof: &Proof, names: &[String]) -> Vec<String> {
    let mut names = names.to_vec();
    names.sort_by_key(|name| proof.role_of(name) != Some(MetricRole::Objective));
    names
}

/// The verdict where the kernel did less work, and no objective got better.
fn no_faster(proof: &Proof, worse: &[String], price: &[String]) -> String {
    let objectives = proof.with_role(MetricRole::Objective);
    let names: Vec<&str> = objectives.map(|j| j.metric.name_in_text()).collect();
    let fewer = if proof.overall.better.iter().any(|n| n == "shootdowns") {
        "fewer shootdowns, no faster"
    } else {
        "less work for the kernel, no faster"
    };
    let mut text = format!(
        "{}: {fewer}: {}, and no evidence that {} changed; the plan is not recommended",
        proof.overall.verdict,
        titles_with_change(&proof.metrics, &proof.overall.better),
        names.join(" or "),
    );
    for (word, names) in [("worse", worse), ("the price", price)] {
        if !names.is_empty() {
            let _ = write!(
                text,
                "; {word}: {}",
                titles_with_change(&proof.metrics, names)
            );
        }
    }
    text
}

/// The account of the observed run in a sentence, with the mechanisms that take more than 1 % of CPU time, three at most.
fn at_stake(account: &AccountSummary) -> String {
    const MAX_MECHANISMS: usize = 3;
    let mut text = account_headline(account);
    let of = |ns: u64| percent(ns as f64 / account.cpu_ns.max(1) as f64);
    let dearest: Vec<String> = account
        .mechanisms
        .iter()
        .filter(|m| (m.cpu_ns + m.blocked_ns) * 100 > account.cpu_ns)
        .take(MAX_MECHANISMS)
        .map(|m| match m.blocked_ns {
            0 => format!("{} {}", m.mechanism, of(m.cpu_ns)),
            ns => format!(
                "{} {} and asleep for {}",
                m.mechanism,
                of(m.cpu_ns),
                time(ns)
            ),
        })
        .collect();
    if !dearest.is_empty() {
        let _ = write!(text, ": {}", dearest.join(", "));
    }
    text
}

/// The prediction beside the measurement, where both are known: for time, or for shootdowns where no time was predicted, as for
/// every plan of several remedies.
fn prediction_line(proof: &Proof) -> String {
    if let [one] = proof.plan.remedies.as_slice()
        && let Some([low, high]) = one.predicted
        && let Some(cpu) = proof.metrics.iter().find(|j| j.metric.name == "cpu_ns")
    {
        return format!(
            "  predicted for CPU time: {} to {}; measured: {}\n",
            ratio_as_change(1.0 + low),
            ratio_as_change(1.0 + high),
            ratio_as_change(cpu.comparison.ratio)
        );
    }
    let predicted = proof.plan.predicted_stop();
    match proof.measured_stop() {
        Some(measured) if predicted > 0.0 => format!(
            "  predicted to stop {:.1} % of the shootdowns, measured {:.1} %\n",
            predicted * 100.0,
            measured * 100.0
        ),
        None if predicted > 0.0 && proof.nothing_to_measure() => format!(
            "  predicted to stop {:.1} % of the shootdowns; without the plan these runs had none: nothing to measure\n",
            predicted * 100.0
        ),
        _ => String::new(),
    }
}

/// The whole proof as text.
pub(crate) fn proof_text(proof: &Proof, saved: Option<&Path>) -> String {
    let mut out = String::new();
    let command = shell_words(&proof.command);
    // Writing to a String does not fail.
    let _ = writeln!(out, "{BOLD}Proof of {}{BOLD:#}", command_title(&command));
    if let Some(account) = &proof.account {
        let _ = write!(
            out,
            "\n{BOLD}At stake{BOLD:#}\n{}",
            wrap(&at_stake(account), 2)
        );
        out.push_str(&show::advice::advice_text(&proof.advice, account.cpu_ns));
    }
    let tried: Vec<String> = proof.tried.iter().map(TriedChange::report_line).collect();
    out.push_str(&bullet_list("Tried, by runs beside each other", &tried));
    if proof.plan.remedies.is_empty() {
        let _ = writeln!(out, "\n{BOLD}Plan{BOLD:#}\n  empty");
    } else {
        let _ = write!(
            out,
            "\n{BOLD}Plan{BOLD:#}\n{}",
            plan::describe_remedies(&proof.plan)
        );
    }
    for out_of_it in &proof.left_out {
        // This line is not wrapped, so that people can search for it.
        let _ = writeln!(out, "  {}", clean_text(&out_of_it.report_line()));
    }
    if proof.pairs > 0 {
        let pairs = proof.pairs;
        let runs = if pairs == 1 {
            "1 pair of runs".to_owned()
        } else {
            format!("{pairs} pairs of runs")
        };
        let _ = writeln!(
            out,
            "\n{BOLD}Without and with the plan{BOLD:#} ({runs}; medians, and the change within pairs)"
        );
        out.push_str(&metrics_table(&proof.metrics));
        out.push_str(&prediction_line(proof));
    }
    if let Some(spent) = &proof.spent {
        let _ = writeln!(
            out,
            "\n{BOLD}Where the time goes, without and with the plan{BOLD:#} (one more run of each; by samples)"
        );
        out.push_str(&spent.accounts_table());
    }
    let _ = write!(
        out,
        "\n{BOLD}Verdict{BOLD:#}\n{}",
        wrap(&verdict_text(proof), 2)
    );
    if proof.pairs > 0 {
        let reason = |j: &JudgedMetric| {
            Some(format!(
                "{}: {}",
                j.metric.name_in_text(),
                j.why_no_evidence()?
            ))
        };
        let reasons: Vec<String> = proof.metrics.iter().filter_map(reason).collect();
        out.push_str(&bullet_list("Why no evidence", &reasons));
    }
    out.push_str(&bullet_list("Notes", &proof.notes));
    if proof.overall.verdict == Verdict::Better && !proof.plan.remedies.is_empty() {
        out.push_str(&plan::how_to_keep(
            &proof.plan,
            &proof.environment,
            &command,
            saved,
        ));
    }
    out
}

#[cfg(test)]
#[path = "text_tests.rs"]
mod tests;
