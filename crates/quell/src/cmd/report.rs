//! `quell report`: explains a trace, or two side by side.

use std::path::Path;
use std::process::ExitCode;

use super::usage;
use crate::cli::ReportArgs;
use crate::compare::{self, Comparison};
use crate::report::{self, Report, export};
use crate::show::{self, emit};

pub(crate) fn run(args: &ReportArgs) -> anyhow::Result<ExitCode> {
    match args.traces.as_slice() {
        [trace] => one(args, trace)?,
        [a, b] => two(args, a, b)?,
        traces => {
            return Err(usage(format!(
                "report explains one trace, or compares two: {} are named",
                traces.len()
            )));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn one(args: &ReportArgs, trace: &Path) -> anyhow::Result<()> {
    if let Some(file) = &args.html {
        return report::html(trace, file);
    }
    if let Some(format) = args.export.export {
        return export::run(trace, format, &args.export, args.output.as_deref());
    }
    let report = Report::open(trace)?;
    let mut out = show::output(args.output.as_deref())?;
    let text = if args.json {
        serde_json::to_string(&report.summary)? + "\n"
    } else {
        let mut text = show::summary::text(&report.summary, &report.title, args.top);
        for note in &report.notes {
            text.push_str(note);
            text.push('\n');
        }
        text
    };
    emit(&mut *out, &text)
}

fn two(args: &ReportArgs, a: &Path, b: &Path) -> anyhow::Result<()> {
    let option = match (&args.html, args.export.export) {
        (Some(_), _) => Some("--html"),
        (_, Some(_)) => Some("--export"),
        _ => None,
    };
    if let Some(option) = option {
        return Err(usage(format!(
            "{option} is of one trace: two can be compared as text or with --json"
        )));
    }
    let comparison = Comparison::open(a, b)?;
    let mut out = show::output(args.output.as_deref())?;
    let text = if args.json {
        compare::json(&comparison)? + "\n"
    } else {
        compare::text(&comparison, args.top)
    };
    emit(&mut *out, &text)
}
