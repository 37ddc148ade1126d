//! The command line of `quell doctor`.

use std::path::PathBuf;

use clap::Args;
use quell_doctor::emit::FixFormat;
use quell_doctor::{Severity, WorkloadProfile};

use super::number;

#[derive(Args, Debug)]
pub(crate) struct DoctorArgs {
    /// A trace of this machine: settings that did harm in it come first.
    #[arg(value_name = "TRACE", conflicts_with_all = ["duration", "undo"])]
    pub(crate) trace: Option<PathBuf>,
    /// Examine this process too: its faults, mappings and allocator.
    #[arg(short, long, value_name = "PID", value_parser = number::parse_pid)]
    pub(crate) pid: Option<u32>,
    /// Judge for this kind of program: low-latency, throughput or database.
    #[arg(long, value_name = "NAME", default_value_t)]
    pub(crate) profile: WorkloadProfile,
    /// Watch for this time first: settings that do harm meanwhile come first.
    #[arg(short, long, value_name = "SECONDS", value_parser = number::parse_seconds)]
    pub(crate) duration: Option<f64>,
    /// Check these rules only. Repeatable, or with commas.
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    pub(crate) rule: Vec<String>,
    /// End with exit status 1 if there is a hazard of this severity or above, and 3 if that is not known: info, low, medium, high
    /// or critical [default: medium].
    #[arg(long, value_name = "SEVERITY")]
    pub(crate) fail_on: Option<Severity>,
    /// List settings that are fine, too.
    #[arg(long)]
    pub(crate) all: bool,
    /// Print one JSON object.
    #[arg(long, conflicts_with_all = ["sarif", "emit", "apply"])]
    pub(crate) json: bool,
    /// Print SARIF 2.1.0, which CI systems collect.
    #[arg(long, conflicts_with_all = ["emit", "apply"])]
    pub(crate) sarif: bool,
    /// Print the lasting fixes as a file for sysctl, tmpfiles, systemd, cmdline, tuned, docker, k8s or
    /// shell.
    #[arg(long, value_name = "FORM", conflicts_with = "apply")]
    pub(crate) emit: Option<FixFormat>,
    /// Show the changes that mend hazards of --fail-on and above, ask, and make them.
    #[arg(long)]
    pub(crate) apply: bool,
    /// Make the changes without asking.
    #[arg(short, long, requires = "apply")]
    pub(crate) yes: bool,
    /// The file to which --apply writes the old values.
    #[arg(long, value_name = "FILE", default_value = "quell-undo.json")]
    pub(crate) undo_file: PathBuf,
    /// Restore the old values that --apply wrote to this file.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["apply", "emit", "json", "sarif", "pid", "duration", "rule", "all", "output"])]
    pub(crate) undo: Option<PathBuf>,
    /// Write the result to a file; '-' is stdout.
    #[arg(short, long, value_name = "FILE", conflicts_with = "apply")]
    pub(crate) output: Option<PathBuf>,
}
