//! The command lines of `quell lab report` and `quell lab compare`.

use std::path::PathBuf;

use clap::Args;

#[derive(Args, Debug)]
pub(crate) struct LabReportArgs {
    /// A file that 'quell lab run -o FILE' wrote.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Print one JSON object a line for each experiment.
    #[arg(long)]
    pub(crate) json: bool,
    /// Write a page for browsers: one file that needs no network; '-' is stdout.
    #[arg(long, value_name = "PAGE")]
    pub(crate) html: Option<PathBuf>,
    /// Write an interval log for HdrHistogram's tools: an interval for each arm; '-' is stdout.
    #[arg(long, value_name = "FILE")]
    pub(crate) hlog: Option<PathBuf>,
    /// Write distributions for HdrHistogram's plotter, a file for each arm: FILE.EXPERIMENT.ARM.hgrm.
    #[arg(long, value_name = "FILE")]
    pub(crate) hgrm: Option<PathBuf>,
    /// Write InfluxDB's line protocol; '-' is stdout.
    #[arg(long, value_name = "FILE")]
    pub(crate) influx: Option<PathBuf>,
    /// Write a trace for ui.perfetto.dev: gaps and operations of a block of each arm; '-' is stdout.
    #[arg(long, value_name = "FILE")]
    pub(crate) perfetto: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct LabCompareArgs {
    /// Files that 'quell lab run -o FILE' wrote, in turns: A B, or A B A B with two runs of each side, and so on. It takes two
    /// runs of each side to distinguish a change from the scatter of runs.
    #[arg(value_name = "A B", required = true, num_args = 2..)]
    pub(crate) files: Vec<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}
