//! Exports a trace in the form of another tool: checks the options, and lets `quell-export` write.

use std::io::{self, IsTerminal as _, Write};
use std::path::Path;

use anyhow::Context as _;
use quell_event::trace::Trace;
use quell_export::{Measure, Rows, SampleWeight, Stacks};

use super::code;
use super::progress::ReadProgress;
use crate::cli::{self, ExportArgs, Format};
use crate::show::units::{count, plural};
use crate::show::{self, Replace};
use crate::usage::usage;

/// Writes the trace at `dir` to `output`, or to stdout.
///
/// # Errors
///
/// The options don't fit together, the trace can't be read, or the output can't be written.
/// A reader that has gone (`| head`) is no error.
pub(crate) fn export_trace(
    dir: &Path,
    format: Format,
    args: &ExportArgs,
    output: Option<&Path>,
) -> anyhow::Result<()> {
    check_options(format, args)?;
    let output = show::file_named(output);
    if format.is_binary() && output.is_none() && io::stdout().is_terminal() {
        return Err(usage(format!(
            "{} is binary, and not for a terminal: name a file with '-o FILE', or redirect the output",
            format.name()
        )));
    }
    let out = Replace::new(output)?;
    let trace = Trace::open(dir)?;
    let stacks = if format.has_stacks() {
        named_stacks(&trace)?
    } else {
        Stacks::default()
    };
    say_what_is_missing(&trace, format.has_stacks() && stacks.is_empty());
    if format == Format::Perfetto {
        say_what_has_no_row(&trace);
    }
    let progress = ReadProgress::new(trace.row_count());
    let told = |rows| progress.set_rows(rows);
    let rows = Rows::new(&trace, &told);
    let written = out.write(|out| write_format(&rows, &stacks, format, args, out));
    drop(progress);
    show::unless_gone(written).with_context(|| match output {
        Some(path) => format!("can't export to {}", path.display()),
        None => "can't export".to_owned(),
    })
}

fn check_options(format: Format, args: &ExportArgs) -> anyhow::Result<()> {
    if args.weight.is_some() && !format.takes_weight() {
        return Err(usage(format!(
            "--weight is for pprof, folded and speedscope: leave it out for {}",
            format.name()
        )));
    }
    if args.of.is_some() && !format.takes_of() {
        return Err(usage(format!(
            "--of is for hgrm and hlog: leave it out for {}",
            format.name()
        )));
    }
    Ok(())
}

/// Writes the rows in the format. By default stacks weigh by the wait, hgrm is of the wait, and hlog of all times.
fn write_format(
    rows: &Rows<'_>,
    stacks: &Stacks,
    format: Format,
    args: &ExportArgs,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let weight = match args.weight {
        None | Some(cli::StackWeight::Wait) => SampleWeight::Wait,
        Some(cli::StackWeight::Count) => SampleWeight::Count,
        Some(cli::StackWeight::Stall) => SampleWeight::Stall,
        Some(cli::StackWeight::Cpu) => SampleWeight::Cpu,
        Some(cli::StackWeight::Blocked) => SampleWeight::Blocked,
    };
    let measure = args.of.map(|of| match of {
        cli::ExportedTime::Wait => Measure::Wait,
        cli::ExportedTime::Delay => Measure::Delay,
        cli::ExportedTime::Stall => Measure::Stall,
    });
    match format {
        Format::Perfetto => quell_export::perfetto::write(rows, stacks, out),
        Format::Pprof => quell_export::pprof::write(rows, stacks, weight, out),
        Format::Folded => quell_export::folded::write(rows, stacks, weight, out),
        Format::Speedscope => quell_export::speedscope::write(rows, stacks, weight, out),
        Format::Hgrm => quell_export::hgrm::write(rows, measure.unwrap_or_default(), out),
        Format::Hlog => match measure {
            None => quell_export::hlog::write(rows, &Measure::ALL, out),
            Some(one) => quell_export::hlog::write(rows, &[one], out),
        },
        Format::Csv => quell_export::csv::write(rows, out),
    }
}

fn named_stacks(trace: &Trace) -> anyhow::Result<Stacks> {
    let processes = trace.read_processes()?.rows;
    Ok(code::name_stacks(
        trace.read_stacks()?.rows.into_values(),
        &processes,
    ))
}

/// An export has no place for notes, so they go to stderr.
fn say_what_is_missing(trace: &Trace, no_stacks: bool) {
    if trace.cut_short() {
        say!("quell: the recording was cut short: this is all up to its last second");
    }
    let counts = trace.read_tally().ok().flatten();
    if counts.is_none() {
        say!("quell: the trace has no counts: whether something was lost is not known");
    }
    if no_stacks && trace.row_count() > 0 && trace.meta().stacks != "none" {
        say!(
            "quell: the trace has no stacks (stacks.jsonl): the export lacks all that is by stack"
        );
    }
    let lost = counts.map_or(0, |t| t.lost.missing_total());
    if lost > 0 {
        say!(
            "quell: {} could not be recorded and {} not in the export; 'quell report' counts them",
            plural(lost, "shootdown"),
            if lost == 1 { "is" } else { "are" },
        );
    }
}

/// Says how many waits and samples have no row: the recorder left some out, which the account has, and the probe lost the others.
fn say_what_has_no_row(trace: &Trace) {
    let account = trace.read_tally().ok().flatten().and_then(|t| t.account);
    let lost = account.map_or(0, |a| a.lost_waits + a.lost_samples);
    let left_out = trace.meta().ended.map_or(0, |e| e.left_out);
    if lost + left_out > 0 {
        let missing = lost + left_out;
        say!(
            "quell: waits and samples came faster than they could be kept: {} {} not in the export",
            count(missing),
            if missing == 1 { "is" } else { "are" },
        );
    }
}
