//! Findings as text: what did harm first, then what might, then what could not be told.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use quell_doctor::{Finding, FindingStatus, Severity, WorkloadProfile};
use quell_event::text::is_plain;

use crate::show::lines::wrap;
use crate::show::style::{BOLD, DIM};
use crate::show::units::plural;

/// Where the texts of a finding stand.
const INDENT: usize = 10;

/// All hazards, whole; a line each for what is unknown, and for what is fine with `all`, or where there is
/// something to know about it.
pub(crate) fn text(findings: &[Finding], profile: WorkloadProfile, all: bool) -> String {
    let of = |status| findings.iter().filter(move |f| f.status == status);
    let mut out = summary(findings, profile);
    for finding in of(FindingStatus::Hazard) {
        hazard(&mut out, finding);
    }
    let unknown = of(FindingStatus::Unknown);
    brief(&mut out, "Unknown: could not be told", unknown);
    let fine = of(FindingStatus::Ok).filter(|f| all || !f.notes.is_empty());
    brief(&mut out, "Fine", fine);
    out
}

fn summary(findings: &[Finding], profile: WorkloadProfile) -> String {
    let count = |status| findings.iter().filter(|f| f.status == status).count() as u64;
    let hazards = count(FindingStatus::Hazard);
    let harmful = findings
        .iter()
        .filter(|f| f.status == FindingStatus::Hazard && f.harm.is_some())
        .count();
    let harm = match harmful {
        0 => String::new(),
        n => format!(", {n} of them did harm"),
    };
    format!(
        "{BOLD}{}{harm}; {} unknown, {} fine{BOLD:#} {DIM}(for {profile}){DIM:#}\n",
        plural(hazards, "hazard"),
        count(FindingStatus::Unknown),
        count(FindingStatus::Ok),
    )
}

fn style(severity: Severity) -> Style {
    let color = match severity {
        Severity::Critical | Severity::High => AnsiColor::Red,
        Severity::Medium => AnsiColor::Yellow,
        Severity::Low | Severity::Info => return Style::new(),
    };
    Style::new().bold().fg_color(Some(color.into()))
}

fn hazard(out: &mut String, f: &Finding) {
    let style = style(f.severity);
    // writing to a String does not fail
    let _ = writeln!(
        out,
        "\n{style}{:<8}{style:#}  {BOLD}{}{BOLD:#}  {}",
        f.severity, f.rule, f.title
    );
    if let Some(harm) = &f.harm {
        let _ = writeln!(
            out,
            "{:INDENT$}{BOLD}did harm: {}{BOLD:#}",
            "",
            clean(&harm.description)
        );
    }
    out.push_str(&wrap(
        &format!("{}.", clean(&f.said).trim_end_matches('.')),
        INDENT,
    ));
    for read in &f.read {
        line(out, "read", &format!("{}: {}", read.path, read.value));
    }
    line(out, "why", f.why);
    for text in f.fix_now().lines() {
        line(out, "now", text);
    }
    for text in f.fix_lasting().lines() {
        line(out, "lasting", text);
    }
    line(out, "cost", f.risk);
    for note in &f.notes {
        line(out, "note", note);
    }
    line(out, "source", f.source);
}

/// What it is, and a text beside it. What can be copied is never broken.
fn line(out: &mut String, what: &str, text: &str) {
    let text = clean(text);
    let whole = matches!(what, "now" | "lasting" | "read");
    let wrapped = if whole {
        format!("{:width$}{text}\n", "", width = INDENT + 9)
    } else {
        wrap(&text, INDENT + 9)
    };
    let label = format!("{:INDENT$}{DIM}{what:<9}{DIM:#}", "");
    out.push_str(&label);
    out.push_str(wrapped.trim_start_matches(' '));
}

fn brief<'a>(out: &mut String, title: &str, findings: impl Iterator<Item = &'a Finding>) {
    for (i, f) in findings.enumerate() {
        if i == 0 {
            let _ = writeln!(out, "\n{BOLD}{title}{BOLD:#}");
        }
        let _ = writeln!(out, "  {:<18}{}: {}", f.rule, f.title, clean(&f.said));
        for note in &f.notes {
            line(out, "note", note);
        }
    }
}

/// What was read may hold an escape of the terminal's.
pub(super) fn clean(text: &str) -> String {
    text.replace(|c| !is_plain(c), " ")
}
