//! Findings as text: hazards that did harm come first, then those that might, then the rules that could not tell.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use quell_doctor::{Finding, FindingStatus, Severity, WorkloadProfile};
use quell_event::text::is_plain;

use crate::show::lines::wrap;
use crate::show::style::{BOLD, DIM};
use crate::show::units::plural;

/// The texts of a finding begin behind so many characters.
const FINDING_INDENT_CHARS: usize = 10;

/// Writes all hazards in full, and a line each for unknown rules. A rule without a hazard has a line with `all`, or where it has
/// a note.
pub(crate) fn findings_text(findings: &[Finding], profile: WorkloadProfile, all: bool) -> String {
    let of = |status| findings.iter().filter(move |f| f.status == status);
    let mut out = summary_line(findings, profile);
    for finding in of(FindingStatus::Hazard) {
        write_hazard(&mut out, finding);
    }
    let unknown = of(FindingStatus::Unknown);
    write_brief(&mut out, "Unknown: could not be told", unknown);
    let fine = of(FindingStatus::Ok).filter(|f| all || !f.notes.is_empty());
    write_brief(&mut out, "Fine", fine);
    out
}

fn summary_line(findings: &[Finding], profile: WorkloadProfile) -> String {
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

fn severity_style(severity: Severity) -> Style {
    let color = match severity {
        Severity::Critical | Severity::High => AnsiColor::Red,
        Severity::Medium => AnsiColor::Yellow,
        Severity::Low | Severity::Info => return Style::new(),
    };
    Style::new().bold().fg_color(Some(color.into()))
}

fn write_hazard(out: &mut String, f: &Finding) {
    let style = severity_style(f.severity);
    // writing to a String does not fail
    let _ = writeln!(
        out,
        "\n{style}{:<8}{style:#}  {BOLD}{}{BOLD:#}  {}",
        f.severity, f.rule, f.title
    );
    if let Some(harm) = &f.harm {
        let _ = writeln!(
            out,
            "{:FINDING_INDENT_CHARS$}{BOLD}did harm: {}{BOLD:#}",
            "",
            printable_text(&harm.description)
        );
    }
    out.push_str(&wrap(
        &format!("{}.", printable_text(&f.said).trim_end_matches('.')),
        FINDING_INDENT_CHARS,
    ));
    for read in &f.read {
        write_labelled(out, "read", &format!("{}: {}", read.path, read.value));
    }
    write_labelled(out, "why", f.why);
    for text in f.fix_now().lines() {
        write_labelled(out, "now", text);
    }
    for text in f.fix_lasting().lines() {
        write_labelled(out, "lasting", text);
    }
    write_labelled(out, "cost", f.risk);
    for note in &f.notes {
        write_labelled(out, "note", note);
    }
    write_labelled(out, "source", f.source);
}

/// Writes a text beside its label. Texts for copying are never broken.
fn write_labelled(out: &mut String, label: &str, text: &str) {
    let text = printable_text(text);
    let whole = matches!(label, "now" | "lasting" | "read");
    let wrapped = if whole {
        format!("{:width$}{text}\n", "", width = FINDING_INDENT_CHARS + 9)
    } else {
        wrap(&text, FINDING_INDENT_CHARS + 9)
    };
    let head = format!("{:FINDING_INDENT_CHARS$}{DIM}{label:<9}{DIM:#}", "");
    out.push_str(&head);
    out.push_str(wrapped.trim_start_matches(' '));
}

fn write_brief<'a>(out: &mut String, title: &str, findings: impl Iterator<Item = &'a Finding>) {
    for (i, f) in findings.enumerate() {
        if i == 0 {
            let _ = writeln!(out, "\n{BOLD}{title}{BOLD:#}");
        }
        let _ = writeln!(
            out,
            "  {:<18}{}: {}",
            f.rule,
            f.title,
            printable_text(&f.said)
        );
        for note in &f.notes {
            write_labelled(out, "note", note);
        }
    }
}

/// Values that were read may hold an escape sequence, which the terminal would obey.
pub(super) fn printable_text(text: &str) -> String {
    text.replace(|c| !is_plain(c), " ")
}
