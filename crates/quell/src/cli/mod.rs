//! The command line: what can be said, not what is done.

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
pub(crate) use export::{ExportArgs, Format, Of, Weight};
pub(crate) use fleet::FleetArgs;
pub(crate) use lab::{
    LabArgs, LabRunArgs, LabVerb, VictimMode, curve_worker_words, guard_words, worker_words,
};
pub(crate) use lab_more::{
    AllocatorsArgs, LabAdviseArgs, LabWatchArgs, SeedJemallocArgs, SeedMadvArgs,
};
pub(crate) use lab_report::{LabCompareArgs, LabReportArgs};

/// Finds, explains, stops and proves away TLB shootdowns.
#[derive(Debug, Parser)]
#[command(name = "quell", version, about, max_term_width = 100)]
#[command(
    after_help = "Start with: quell prove -- YOUR-PROGRAM\nExit status: 0 done, 1 it did not hold or failed, 2 bad usage; a command's own status is passed on."
)]
pub(crate) struct Cli {
    /// When to use colour. `NO_COLOR` is respected.
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
    /// Explain a trace: how much, who, at whom, why, where, from which code. Or compare two.
    Report(ReportArgs),
    /// Say what in this system or process will stall a program, why, and the fix.
    Doctor(DoctorArgs),
    /// Choose remedies for a program, each with its evidence and cost.
    Plan(PlanArgs),
    /// Start a command with a plan applied.
    Run(RunArgs),
    /// Find, plan, then run with and without in pairs; say what changed.
    Prove(ProveArgs),
    /// Cause one kind of stall on purpose and measure it.
    Lab(LabArgs),
    /// Keep watch on this host, and tell Prometheus, InfluxDB and OpenTelemetry.
    Agent(AgentArgs),
    /// Ask the traces of many hosts: which causes and binaries cost the most, what changed, which remedy helps.
    Fleet(FleetArgs),
}

/// How shootdowns are seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// By the probe.
    Probe(Backend),
    /// By what /proc counts: how many, and no more. For `stat` only.
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

/// Which shootdowns count.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Target {
    /// Everything on this machine, but for quell itself.
    #[arg(short, long)]
    pub(crate) all: bool,
    /// These processes, and all that they fork. Repeatable, or with commas.
    #[arg(short, long, value_name = "PID", value_delimiter = ',', value_parser = number::pid)]
    pub(crate) pid: Vec<u32>,
    /// Who shoots at these CPUs, such as 2,4-7.
    #[arg(long, value_name = "LIST")]
    pub(crate) cpu: Option<String>,
    /// Count every other function that one CPU makes another one run, too: membarrier, text patching,
    /// RCU, perf, wake-ups and the like.
    #[arg(long)]
    pub(crate) ipi: bool,
    /// Follow the stacks of programs by frame pointers alone. Without, pieces of a stack are read to follow it by
    /// .eh_frame too, as most programs keep no frame pointers; they stay in memory until then.
    #[arg(long)]
    pub(crate) no_unwind: bool,
    /// How to see them: raw_tp (Linux 6.5), fentry (5.15), or proc (anywhere, without rights, and
    /// far less); without, the first that works.
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
    /// Print counts every so many seconds.
    #[arg(short = 'I', long, value_name = "SECONDS", value_parser = number::seconds)]
    pub(crate) interval: Option<f64>,
    /// Stop after so many seconds.
    #[arg(short, long, value_name = "SECONDS", value_parser = number::seconds)]
    pub(crate) duration: Option<f64>,
    /// Time every shootdown. Without, of more than 15,000 a second on a CPU only 5,000 to 15,000 are timed, and the
    /// times are said to be estimates; counts are always of all.
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
    /// Without any of -a, -p, --cpu and a command: everything.
    #[command(flatten)]
    pub(crate) target: Target,
    /// Show a new interval every so many seconds, 0.1 to 60.
    #[arg(short = 'd', long, value_name = "SECONDS", default_value_t = 1.0, value_parser = number::seconds)]
    pub(crate) interval: f64,
    /// Print N intervals as text and end, also without a terminal.
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) batch: Option<u64>,
    /// Print one JSON object a line, and no screen.
    #[arg(long)]
    pub(crate) json: bool,
    /// Begin with a close look at this process: its threads, causes, regions and stacks.
    #[arg(long, value_name = "PID")]
    pub(crate) close: Option<u32>,
    /// CPUs that nobody should disturb, besides those that the kernel isolates.
    #[arg(long, value_name = "LIST")]
    pub(crate) isolated: Option<String>,
    /// Rows of each table in text.
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
    /// Replace the trace if there is one.
    #[arg(short, long)]
    pub(crate) force: bool,
    /// Of which shootdowns stacks are kept: all, none, or one in N. Counts are always exact.
    #[arg(long, value_name = "all|none|N", default_value = "all")]
    pub(crate) stacks: String,
    /// Stop after so many seconds.
    #[arg(short, long, value_name = "SECONDS", value_parser = number::seconds)]
    pub(crate) duration: Option<f64>,
}

#[derive(Args, Debug)]
pub(crate) struct ReportArgs {
    /// The trace, as written by `quell record`. With two: what vanished from the first to the
    /// second, what is new, and what changed.
    #[arg(value_name = "TRACE", default_value = "trace.quell")]
    pub(crate) traces: Vec<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
    /// Write a page for browsers: one file that needs no network; '-' is stdout.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "output"])]
    pub(crate) html: Option<PathBuf>,
    /// Lines of each table.
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
    /// A trace to choose by.
    #[arg(value_name = "TRACE", conflicts_with_all = ["pid", "command"])]
    pub(crate) trace: Option<PathBuf>,
    /// A running process, watched for --duration.
    #[arg(short, long, value_name = "PID", conflicts_with = "command", value_parser = number::pid)]
    pub(crate) pid: Option<u32>,
    /// How long to watch a process, seconds.
    #[arg(short, long, value_name = "SECONDS", default_value_t = 10.0, value_parser = number::seconds)]
    pub(crate) duration: f64,
    /// By how much of its most resident memory the plan may let the program grow, as predicted; without,
    /// 25%, or 16 MB where that is more.
    #[arg(long, value_name = "P%")]
    pub(crate) budget: Option<Budget>,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the plan for shell, systemd, docker or k8s, and what that can't hold as comments.
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
    /// Apply this plan (TOML), such as 'quell prove --save' writes; without it nothing is set.
    #[arg(long, value_name = "FILE")]
    pub(crate) plan: Option<PathBuf>,
    /// Set what is known to stop shootdowns of what the command is built of, though nobody has tried here whether that wins time.
    #[arg(long, conflicts_with = "plan")]
    pub(crate) untried: bool,
    /// Write the plan as TOML.
    #[arg(long, value_name = "FILE")]
    pub(crate) save: Option<PathBuf>,
    /// Print the environment that would be set, and start nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print where libquell.so is, for LD_PRELOAD by hand, and start nothing.
    #[arg(long, conflicts_with_all = ["plan", "untried", "save", "dry_run", "command"])]
    pub(crate) library: bool,
    /// The command to start.
    #[arg(last = true, value_name = "CMD", required_unless_present = "library")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Args, Debug)]
pub(crate) struct ProveArgs {
    /// Make exactly so many pairs of runs, with and without the plan; at least 5 for a verdict. Without, 5, and 10 or 20 as long as they
    /// promise a gain and don't settle it.
    #[arg(short = 'n', long, value_name = "N")]
    pub(crate) pairs: Option<usize>,
    /// Prove this plan (TOML) and not the one that quell would choose.
    #[arg(long, value_name = "FILE")]
    pub(crate) plan: Option<PathBuf>,
    /// Prove what would be planned as a whole, without trying by runs which of its changes win time.
    #[arg(long, conflicts_with = "plan")]
    pub(crate) no_try: bool,
    /// Take about so many seconds for all of it: with more time more rounds are tried, with less fewer changes. The pairs of the
    /// proof are made in any case.
    #[arg(long, value_name = "SECONDS", conflicts_with_all = ["plan", "no_try"], value_parser = number::seconds)]
    pub(crate) budget_time: Option<f64>,
    /// Make at most so many runs in all.
    #[arg(long, value_name = "N", conflicts_with_all = ["plan", "no_try"])]
    pub(crate) runs: Option<usize>,
    /// By how much of its most resident memory the plan may let the program grow, as predicted and as measured; without,
    /// 25% as predicted, or 16 MB where that is more, and 100% as measured.
    #[arg(long, value_name = "P%", conflicts_with = "plan")]
    pub(crate) budget: Option<Budget>,
    /// Write the plan as TOML.
    #[arg(long, value_name = "FILE")]
    pub(crate) save: Option<PathBuf>,
    /// Take a number from the output, of the load if there is one: the first group of the expression.
    /// Lower is better, or with NAME^=REGEX higher. Repeatable.
    #[arg(long, value_name = "NAME=REGEX")]
    pub(crate) metric: Vec<String>,
    /// The command is a server: when it is ready, run this (by sh -c), then stop the server.
    #[arg(long, value_name = "CMD", requires = "ready")]
    pub(crate) load: Option<String>,
    /// The server is ready when this TCP port of the loopback address accepts a connection.
    #[arg(long, value_name = "PORT", requires = "load")]
    pub(crate) ready: Option<u16>,
    /// Give up on a run after so many seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 600.0, value_parser = number::seconds)]
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
