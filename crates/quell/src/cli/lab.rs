//! The command line of `quell lab`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use quell_lab::params;
use quell_lab::round::{DEFAULT_BLOCK_MS, DEFAULT_PACE_US};

use super::lab_more::{
    AllocatorsArgs, LabAdviseArgs, LabWatchArgs, SeedJemallocArgs, SeedMadvArgs,
};
use super::{LabCompareArgs, LabReportArgs};

#[derive(Args, Debug)]
pub(crate) struct LabArgs {
    #[command(subcommand)]
    pub(crate) what: LabVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LabVerb {
    /// List the experiments and the parameters of each.
    List,
    /// Cause one kind of stall on purpose and measure it, or all of them.
    Run(LabRunArgs),
    /// List the interruptions of a CPU, seen by a thread that wants to run there beside everything else.
    Watch(LabWatchArgs),
    /// Run a short set of experiments, and list doctor's rules that matter on this machine, with the measured effects.
    Advise(LabAdviseArgs),
    /// Run jabperf's madv: N threads that give a page back by madvise, beside the figures of its author.
    SeedMadv(SeedMadvArgs),
    /// Repeat ByteDance's finding: jemalloc with decay on, off and immediate, for every jemalloc of the system.
    SeedJemalloc(SeedJemallocArgs),
    /// Measure the effect of each allocator's free() on other threads: 'alloc-free' with each allocator of the system.
    Allocators(AllocatorsArgs),
    /// The program of seed-madv.
    #[command(hide = true)]
    MadvRun {
        /// Threads.
        threads: usize,
        /// The calls of each thread.
        calls: u64,
        /// 1: write the page before each call.
        touch: u8,
    },
    /// The program of seed-jemalloc.
    #[command(hide = true)]
    ChurnRun {
        /// The seed of the blocks' sizes.
        seed: u64,
    },
    /// Show results as text, as a page with charts, or in the forms of other tools.
    Report(LabReportArgs),
    /// Compare the results of two kernels, machines or settings.
    Compare(LabCompareArgs),
    /// A victim or a culprit, which reads its work on stdin.
    #[command(hide = true)]
    Worker,
    /// Measures a part of a curve, which it reads on stdin.
    #[command(hide = true)]
    CurveWorker,
    /// Sets the system up for an experiment until its stdin ends.
    #[command(hide = true)]
    Guard {
        /// The things to set up.
        needs: Vec<String>,
    },
}

/// The behaviour of the victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum VictimMode {
    /// Spins, and records every gap.
    Spin,
    /// Sleeps, to show whether shootdowns reach an idle CPU.
    Sleep,
}

#[derive(Args, Debug)]
pub(crate) struct LabRunArgs {
    /// The experiments or curves by name, as 'quell lab list' prints them; 'all' is every experiment with a victim.
    #[arg(value_name = "EXPERIMENT", required = true)]
    pub(crate) experiments: Vec<String>,
    /// Change a parameter; sizes may end in k, M or G. Repeatable.
    #[arg(long, value_name = "NAME=NUMBER", value_parser = params::parse_param)]
    pub(crate) set: Vec<(String, u64)>,
    /// Read parameters from TOML: a table for each experiment.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The most time for each experiment, which ends sooner when its effect is known well [default: 20, or the time of six
    /// rounds where they are long].
    #[arg(long, value_name = "SECONDS")]
    pub(crate) budget: Option<String>,
    /// The most rounds [default: as many as the effect needs].
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) rounds: usize,
    /// The behaviour of the victim.
    #[arg(long, value_enum, default_value_t = VictimMode::Spin, value_name = "MODE")]
    pub(crate) victim: VictimMode,
    /// The CPU of the victim [default: the last that quell may use].
    #[arg(long, value_name = "CPU")]
    pub(crate) victim_cpu: Option<u32>,
    /// The CPU of the culprit [default: the first that quell may use].
    #[arg(long, value_name = "CPU")]
    pub(crate) culprit_cpu: Option<u32>,
    /// The length of a block of one arm, in ms.
    #[arg(long, value_name = "MS", default_value_t = DEFAULT_BLOCK_MS, value_parser = clap::value_parser!(u64).range(10..=5000))]
    pub(crate) block: u64,
    /// The shortest time from the start of one operation to that of the next, in µs.
    #[arg(long, value_name = "US", default_value_t = DEFAULT_PACE_US, value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    pub(crate) pace: u64,
    /// The seed of the order of the arms [default: by the clock].
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Print one JSON object a line for each experiment.
    #[arg(long)]
    pub(crate) json: bool,
    /// Write all measurements to a file, for 'quell lab report' and 'compare'.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Send InfluxDB's line protocol as each block ends: to a file, udp://HOST:PORT or http://HOST:PORT/write?db=NAME.
    #[arg(long, value_name = "WHERE", value_parser = quell_export::influx::SinkTarget::parse)]
    pub(crate) influx: Option<quell_export::influx::SinkTarget>,
}

/// The words that start the hidden verb of a worker.
pub(crate) const WORKER_WORDS: [&str; 2] = ["lab", "worker"];

/// The words that start the hidden verb which sets the system up.
pub(crate) const GUARD_WORDS: [&str; 2] = ["lab", "guard"];

/// The words that start the hidden verb which measures a part of a curve.
pub(crate) const CURVE_WORKER_WORDS: [&str; 2] = ["lab", "curve-worker"];
