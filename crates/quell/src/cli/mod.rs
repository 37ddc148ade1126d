//! The command line: its verbs and options, without the work behind them.

mod agent;
mod budget;
mod doctor;
mod export;
mod fleet;
mod lab;
mod lab_more;
mod lab_report;
mod number;
#[cfg(test)]
mod pages_tests;

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Parser, Subcommand, ValueEnum};
use quell_probe::Backend;

pub(crate) use agent::{AgentArgs, AgentLookBackArgs, AgentTracesArgs, AgentVerb};
pub(crate) use budget::Budget;
pub(crate) use doctor::DoctorArgs;
pub(crate) use export::{ExportArgs, ExportedTime, Format, StackWeight};
pub(crate) use fleet::FleetArgs;
pub(crate) use lab::{
    CURVE_WORKER_WORDS, GUARD_WORDS, LabArgs, LabRunArgs, LabVerb, VictimMode, WORKER_WORDS,
};
pub(crate) use lab_more::{
    AllocatorsArgs, LabAdviseArgs, LabWatchArgs, SeedJemallocArgs, SeedMadvArgs,
};
pub(crate) use lab_report::{LabCompareArgs, LabReportArgs};

/// Shows the time that virtual memory costs a program, names the cause, changes it, and proves the gain.
#[derive(Debug, Parser)]
#[command(name = "quell", version, about, max_term_width = 100)]
#[command(
    after_help = "Start with: quell prove -- YOUR-PROGRAM\nExit status: 0 done, 1 it did not hold or failed, 2 bad usage; a command's own status is passed on."
)]
pub(crate) struct Cli {
    /// When to use colour; `NO_COLOR` is respected.
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    pub(crate) color: Color,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    Auto,
    Always,
    Never,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Count shootdowns: exact, cheap, at the end or every interval.
    Stat(StatArgs),
    /// Watch live: culprits, victims, causes, and which CPU interrupts which.
    Top(TopArgs),
    /// Write every shootdown into a trace.
    Record(RecordArgs),
    /// Explain a trace: costs, culprits, victims, causes, regions and code. Or compare two.
    Report(ReportArgs),
    /// List the settings of this system or process that will stall a program, each with the reason and the fix.
    Doctor(DoctorArgs),
    /// Choose remedies for a program, each with its evidence and cost.
    Plan(PlanArgs),
    /// Start a command with a plan applied.
    Run(RunArgs),
    /// Find the costs, make a plan, run with and without it in pairs, and report the change.
    Prove(ProveArgs),
    /// Cause one kind of stall on purpose and measure it.
    Lab(LabArgs),
    /// Watch this host all the time, for Prometheus, InfluxDB and OpenTelemetry.
    Agent(AgentArgs),
    /// Query the traces of many hosts for the dearest causes and binaries, for changes, and for remedies.
    Fleet(FleetArgs),
}

/// The way to observe shootdowns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// The probe in the kernel.
    Probe(Backend),
    /// The counts in /proc, which have the numbers only. For `stat` alone.
    Proc,
}

impl Way {
    pub(crate) fn probe(self) -> Option<Backend> {
        match self {
            Self::Probe(backend) => Some(backend),
            Self::Proc => None,
        }
    }
}

impl FromStr for Way {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        if name == "proc" {
            return Ok(Self::Proc);
        }
        let backend = name.parse::<Backend>().map(Self::Probe);
        backend.map_err(|_| "write raw_tp, fentry or proc".to_owned())
    }
}

/// The shootdowns that count.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Target {
    /// Everything on this machine, but for quell itself.
    #[arg(short, long)]
    pub(crate) all: bool,
    /// These processes, and all that they fork. Repeatable, or with commas.
    #[arg(short, long, value_name = "PID", value_delimiter = ',', value_parser = number::parse_pid)]
    pub(crate) pid: Vec<u32>,
    /// All shootdowns that interrupt these CPUs, such as 2,4-7.
    #[arg(long, value_name = "LIST")]
    pub(crate) cpu: Option<String>,
    /// Count every other function that one CPU makes another one run, too: membarrier, text patching,
    /// RCU, perf, wake-ups and the like.
    #[arg(long)]
    pub(crate) ipi: bool,
    /// Follow the stacks of programs by frame pointers alone. Without this option, pieces of each stack are copied and kept in
    /// memory for a while, to follow it by .eh_frame too, because most programs keep no frame pointers.
    #[arg(long)]
    pub(crate) no_unwind: bool,
    /// The way to observe: raw_tp (Linux 6.5), fentry (5.15), or proc (anywhere and without rights, with far fewer figures)
    /// [default: the first that works].
    #[arg(long, value_name = "NAME", env = "QUELL_BACKEND")]
    pub(crate) backend: Option<Way>,
    /// A command to start and watch, with all that it forks.
    #[arg(last = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Args, Debug)]
pub(crate) struct StatArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Print counts at this interval.
    #[arg(short = 'I', long, value_name = "SECONDS", value_parser = number::parse_seconds)]
    pub(crate) interval: Option<f64>,
    /// Stop after this time.
    #[arg(short, long, value_name = "SECONDS", value_parser = number::parse_seconds)]
    pub(crate) duration: Option<f64>,
    /// Time every shootdown. Without this option only 5,000 to 15,000 are timed where a CPU makes more than 15,000 a second,
    /// and the times are marked as estimates; counts are always exact.
    #[arg(long)]
    pub(crate) time_all: bool,
    /// Print one JSON object (one a line with --interval).
    #[arg(long)]
    pub(crate) json: bool,
    /// Write the result to a file, so that it doesn't mix with the command's output; '-' is stdout.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct TopArgs {
    /// Without -a, -p, --cpu or a command everything is watched.
    #[command(flatten)]
    pub(crate) target: Target,
    /// The length of an interval, 0.1 to 60 seconds.
    #[arg(short = 'd', long, value_name = "SECONDS", default_value_t = 1.0, value_parser = number::parse_seconds)]
    pub(crate) interval: f64,
    /// Print N intervals as text, also without a terminal, and end.
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) batch: Option<u64>,
    /// Print one JSON object a line, and no screen.
    #[arg(long)]
    pub(crate) json: bool,
    /// Begin with a close look at this process: its threads, causes, regions and stacks.
    #[arg(long, value_name = "PID")]
    pub(crate) close: Option<u32>,
    /// CPUs that nobody should disturb, in addition to those that the kernel isolates.
    #[arg(long, value_name = "LIST")]
    pub(crate) isolated: Option<String>,
    /// The most rows of each table in text.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10)]
    pub(crate) top: usize,
}

#[derive(Args, Debug)]
pub(crate) struct RecordArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// The trace: a new directory.
    #[arg(short, long, value_name = "DIR", default_value = "trace.quell")]
    pub(crate) output: PathBuf,
    /// Replace an existing trace.
    #[arg(short, long)]
    pub(crate) force: bool,
    /// Keep the stacks of all shootdowns, of none, or of one in N; counts are always exact.
    #[arg(long, value_name = "all|none|N", default_value = "all")]
    pub(crate) stacks: String,
    /// Stop after this time.
    #[arg(short, long, value_name = "SECONDS", value_parser = number::parse_seconds)]
    pub(crate) duration: Option<f64>,
}

#[derive(Args, Debug)]
pub(crate) struct ReportArgs {
    /// The trace that `quell record` wrote. Two traces are compared: names that vanished, new names, and changes.
    #[arg(value_name = "TRACE", default_value = "trace.quell")]
    pub(crate) traces: Vec<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
    /// Write a page for browsers: one file that needs no network; '-' is stdout.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "output"])]
    pub(crate) html: Option<PathBuf>,
    /// The most lines of each table.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10)]
    pub(crate) top: usize,
    #[command(flatten)]
    pub(crate) export: ExportArgs,
    /// Write the result to a file; '-' is stdout.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct PlanArgs {
    /// Choose the plan by this trace.
    #[arg(value_name = "TRACE", conflicts_with_all = ["pid", "command"])]
    pub(crate) trace: Option<PathBuf>,
    /// Watch this running process for --duration.
    #[arg(short, long, value_name = "PID", conflicts_with = "command", value_parser = number::parse_pid)]
    pub(crate) pid: Option<u32>,
    /// The time to watch a process.
    #[arg(short, long, value_name = "SECONDS", default_value_t = 10.0, value_parser = number::parse_seconds)]
    pub(crate) duration: f64,
    /// The predicted growth of resident memory that a plan may cause, in per cent of its maximum [default: 25%, or 16 MB if
    /// that is more].
    #[arg(long, value_name = "P%")]
    pub(crate) budget: Option<Budget>,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the plan for shell, systemd, docker or k8s; settings that the form can't hold become comments.
    #[arg(long, value_name = "FORM", conflicts_with = "json")]
    pub(crate) emit: Option<quell_remedy::emit::PlanForm>,
    /// Write the plan as TOML, for `quell run --plan`.
    #[arg(long, value_name = "FILE")]
    pub(crate) save: Option<PathBuf>,
    /// A command to run once and watch.
    #[arg(last = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Args, Debug)]
pub(crate) struct RunArgs {
    /// Apply this plan (TOML), as 'quell prove --save' writes it; without a plan nothing is set.
    #[arg(long, value_name = "FILE")]
    pub(crate) plan: Option<PathBuf>,
    /// Apply the settings that are known to stop shootdowns of the command's allocators, although nobody has tried here whether
    /// they win time.
    #[arg(long, conflicts_with = "plan")]
    pub(crate) untried: bool,
    /// Write the plan as TOML.
    #[arg(long, value_name = "FILE")]
    pub(crate) save: Option<PathBuf>,
    /// Print the environment that would be set, and start nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print the path of libquell.so, for LD_PRELOAD by hand, and start nothing.
    #[arg(long, conflicts_with_all = ["plan", "untried", "save", "dry_run", "command"])]
    pub(crate) library: bool,
    /// The command to start.
    #[arg(last = true, value_name = "CMD", required_unless_present = "library")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Args, Debug)]
pub(crate) struct ProveArgs {
    /// Make exactly N pairs of runs, with and without the plan; a verdict needs at least 5 [default: 5, and 10 or 20 while they
    /// promise a gain without settling it].
    #[arg(short = 'n', long, value_name = "N")]
    pub(crate) pairs: Option<usize>,
    /// Prove this plan (TOML) instead of the one that quell would choose.
    #[arg(long, value_name = "FILE")]
    pub(crate) plan: Option<PathBuf>,
    /// Prove the whole plan that quell would choose, without trying its changes by runs first.
    #[arg(long, conflicts_with = "plan")]
    pub(crate) no_try: bool,
    /// Take about this time for everything: more time allows more rounds of trials, and less time fewer changes. The pairs of
    /// the proof are made in any case.
    #[arg(long, value_name = "SECONDS", conflicts_with_all = ["plan", "no_try"], value_parser = number::parse_seconds)]
    pub(crate) budget_time: Option<f64>,
    /// Make at most N runs in all.
    #[arg(long, value_name = "N", conflicts_with_all = ["plan", "no_try"])]
    pub(crate) runs: Option<usize>,
    /// The growth of resident memory that a plan may cause, predicted and measured, in per cent of its maximum [default:
    /// predicted 25%, or 16 MB if that is more; measured 100%].
    #[arg(long, value_name = "P%", conflicts_with = "plan")]
    pub(crate) budget: Option<Budget>,
    /// Write the plan as TOML.
    #[arg(long, value_name = "FILE")]
    pub(crate) save: Option<PathBuf>,
    /// Judge by a number in the output of the command, or of the load if there is one: the first group of the expression.
    /// Lower is better; with NAME^=REGEX higher is. Repeatable.
    #[arg(long, value_name = "NAME=REGEX")]
    pub(crate) metric: Vec<String>,
    /// The command is a server: run this load when it is ready (by sh -c), and then stop the server.
    #[arg(long, value_name = "CMD", requires = "ready")]
    pub(crate) load: Option<String>,
    /// The server is ready when this TCP port of the loopback address accepts a connection.
    #[arg(long, value_name = "PORT", requires = "load")]
    pub(crate) ready: Option<u16>,
    /// Give up on a run after this time.
    #[arg(long, value_name = "SECONDS", default_value_t = 600.0, value_parser = number::parse_seconds)]
    pub(crate) timeout: f64,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
    /// Write the result to a file; '-' is stdout.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// The command to prove.
    #[arg(last = true, value_name = "CMD", required = true)]
    pub(crate) command: Vec<OsString>,
}
