//! `quell report`: explains a trace, or two side by side.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use quell_agent::look_back::LookBackLine;
use quell_event::text::clean_text;
use serde_json::json;

use crate::agent::look_back;
use crate::cli::ReportArgs;
use crate::compare::{self, Comparison};
use crate::report::{self, Report, export};
use crate::show::{self, emit};
use crate::usage::usage;

pub(crate) fn run(args: &ReportArgs) -> anyhow::Result<ExitCode> {
    let named = [args.output.as_deref(), args.html.as_deref()];
    for file in named.into_iter().filter_map(show::file_named) {
        refuse_file_in_trace(&args.traces, file)?;
    }
    match args.traces.as_slice() {
        [trace] => report_one(args, trace)?,
        [a, b] => compare_two(args, a, b)?,
        traces => {
            return Err(usage(format!(
                "report explains one trace, or compares two: {} are named",
                traces.len()
            )));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Refuses to write a result into a trace, because it could replace a part of the trace.
fn refuse_file_in_trace(traces: &[PathBuf], file: &Path) -> anyhow::Result<()> {
    // An existing file may be a link that leads into a trace, and so may its folder.
    let there = file.canonicalize();
    let folder = match &there {
        Ok(file) => Ok(show::folder_of(file).to_owned()),
        Err(_) => show::folder_of(&show::led_to(file)).canonicalize(),
    };
    let Ok(folder) = folder else { return Ok(()) };
    let inside = |trace: &&PathBuf| trace.canonicalize().is_ok_and(|t| t == folder);
    match traces.iter().find(inside) {
        None => Ok(()),
        Some(trace) => Err(usage(format!(
            "{} would lie in the trace {}: write it elsewhere",
            file.display(),
            trace.display()
        ))),
    }
}

/// The summary of a trace, with notes for its reader, advice for costs that no setting reaches, and the counts from before a
/// trace that quell agent began.
fn report_json(report: &Report, before: &[LookBackLine]) -> anyhow::Result<String> {
    let mut object = serde_json::to_value(&report.summary)?;
    object["notes"] = json!(report.notes);
    object["advice"] = json!(report.advice);
    if !before.is_empty() {
        object["look_back"] = json!(before);
    }
    Ok(object.to_string() + "\n")
}

fn report_one(args: &ReportArgs, trace: &Path) -> anyhow::Result<()> {
    if let Some(file) = &args.html {
        return report::write_page(trace, file);
    }
    if let Some(format) = args.export.export {
        return export::export_trace(trace, format, &args.export, args.output.as_deref());
    }
    let report = Report::open(trace)?;
    let before = look_back::read_look_back(trace);
    let mut out = show::output(args.output.as_deref())?;
    let text = if args.json {
        report_json(&report, &before)?
    } else {
        let mut text =
            show::summary::advised_text(&report.summary, &report.title, &report.advice, args.top);
        for note in &report.notes {
            text.push_str(&clean_text(note));
            text.push('\n');
        }
        text.push_str(&look_back::look_back_text(&before, args.top));
        text
    };
    emit(&mut *out, &text)
}

fn compare_two(args: &ReportArgs, a: &Path, b: &Path) -> anyhow::Result<()> {
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
        compare::comparison_json(&comparison) + "\n"
    } else {
        compare::comparison_text(&comparison, args.top)
    };
    emit(&mut *out, &text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that nothing is written into a trace, by whatever way it is named, and elsewhere it is.
    #[test]
    fn traces_are_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let trace = dir.path().join("t.quell");
        std::fs::create_dir(&trace).unwrap();
        let traces = [dir.path().join("other"), trace.clone()];
        let way = dir.path().join("t.quell/../t.quell/meta.json");
        assert!(refuse_file_in_trace(&traces, &trace.join("x.html")).is_err());
        assert!(refuse_file_in_trace(&traces, &way).is_err());
        let link = dir.path().join("link.json");
        std::fs::write(trace.join("meta.json"), "{}").unwrap();
        std::os::unix::fs::symlink(trace.join("meta.json"), &link).unwrap();
        assert!(refuse_file_in_trace(&traces, &link).is_err());
        std::fs::remove_file(trace.join("meta.json")).unwrap();
        assert!(
            refuse_file_in_trace(&traces, &link).is_err(),
            "a link to nothing yet"
        );
        assert!(refuse_file_in_trace(&traces, &dir.path().join("x.html")).is_ok());
        assert!(refuse_file_in_trace(&traces, &dir.path().join("missing/x")).is_ok());
        assert!(refuse_file_in_trace(&traces, Path::new("x.html")).is_ok());
    }
}
