//! `quell report`: explains a trace.

use std::process::ExitCode;

use crate::cli::ReportArgs;
use crate::report::{self, Report, export};
use crate::show::{self, emit};

pub(crate) fn run(args: &ReportArgs) -> anyhow::Result<ExitCode> {
    if let Some(file) = &args.html {
        report::html(&args.trace, file)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(format) = args.export.export {
        export::run(&args.trace, format, &args.export, args.output.as_deref())?;
        return Ok(ExitCode::SUCCESS);
    }
    let report = Report::open(&args.trace)?;
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
    emit(&mut *out, &text)?;
    Ok(ExitCode::SUCCESS)
}
