//! What `quell lab report` and `quell lab compare` can be told.

use std::path::PathBuf;

use clap::Args;

#[derive(Args, Debug)]
pub(crate) struct LabReportArgs {
    /// What 'quell lab run -o FILE' wrote.
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
    /// What 'quell lab run -o A' wrote.
    #[arg(value_name = "A")]
    pub(crate) a: PathBuf,
    /// The same, of another kernel, machine or setting.
    #[arg(value_name = "B")]
    pub(crate) b: PathBuf,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}
