//! What `quell lab` can be told.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use quell_lab::experiment::{BLOCK_MS, PACE_US};
use quell_lab::params;

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
    /// Say which experiments there are, and what each can be told.
    List,
    /// Cause one kind of stall on purpose and measure it, or all of them.
    Run(LabRunArgs),
    /// Say what hits a CPU, seen by a thread that wants to run there, beside whatever runs.
    Watch(LabWatchArgs),
    /// Run a short set and say which of doctor's rules matter on this machine, with what was measured.
    Advise(LabAdviseArgs),
    /// jabperf's madv: N threads that advise a page away, with the document's figures beside.
    SeedMadv(SeedMadvArgs),
    /// ByteDance's finding: jemalloc's decay on, off and at once, for every jemalloc there is.
    SeedJemalloc(SeedJemallocArgs),
    /// What free() of each allocator of the system does to other threads: 'alloc-free' over each.
    Allocators(AllocatorsArgs),
    /// The program of seed-madv.
    #[command(hide = true)]
    MadvRun {
        /// Threads.
        threads: usize,
        /// Calls of each.
        calls: u64,
        /// 1: write the page before each.
        touch: u8,
    },
    /// The program of seed-jemalloc.
    #[command(hide = true)]
    ChurnRun {
        /// Of the blocks' sizes.
        seed: u64,
    },
    /// Say what results say: as text, as a page with pictures, in the forms of other tools.
    Report(LabReportArgs),
    /// Lay the results of two kernels, machines or settings side by side.
    Compare(LabCompareArgs),
    /// A victim or a culprit, told what to do on stdin.
    #[command(hide = true)]
    Worker,
    /// Measures a part of a curve, told which on stdin.
    #[command(hide = true)]
    CurveWorker,
    /// Sets the system up for an experiment until its stdin ends.
    #[command(hide = true)]
    Guard {
        /// What is needed.
        needs: Vec<String>,
    },
}

/// What the victim does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum VictimMode {
    /// Spins, and writes down every gap.
    Spin,
    /// Sleeps: do shootdowns reach a CPU that idles?
    Sleep,
}

#[derive(Args, Debug)]
pub(crate) struct LabRunArgs {
    /// Experiments by name, as 'quell lab list' prints them; 'all' is every one with a victim. Or curves.
    #[arg(value_name = "EXPERIMENT", required = true)]
    pub(crate) experiments: Vec<String>,
    /// Change a parameter; sizes may end in k, M or G. Repeatable.
    #[arg(long, value_name = "NAME=NUMBER", value_parser = params::parse)]
    pub(crate) set: Vec<(String, u64)>,
    /// Read parameters from TOML: a table for each experiment.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// At most so many seconds for each experiment. It ends sooner when its effect is known well. Without, 20, or what
    /// six rounds take where they are long.
    #[arg(long, value_name = "SECONDS")]
    pub(crate) budget: Option<String>,
    /// At most so many rounds; without, as many as it takes.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) rounds: usize,
    /// What the victim does.
    #[arg(long, value_enum, default_value_t = VictimMode::Spin, value_name = "MODE")]
    pub(crate) victim: VictimMode,
    /// The CPU of the victim; without, the last that quell may use.
    #[arg(long, value_name = "CPU")]
    pub(crate) victim_cpu: Option<u32>,
    /// The CPU of the culprit; without, the first that quell may use.
    #[arg(long, value_name = "CPU")]
    pub(crate) culprit_cpu: Option<u32>,
    /// How long a block of one arm is, ms.
    #[arg(long, value_name = "MS", default_value_t = BLOCK_MS, value_parser = clap::value_parser!(u64).range(10..=5000))]
    pub(crate) block: u64,
    /// How soon one operation may follow the start of the last, µs.
    #[arg(long, value_name = "US", default_value_t = PACE_US, value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    pub(crate) pace: u64,
    /// The seed of the order of the arms; without, the clock.
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Print one JSON object a line for each experiment.
    #[arg(long)]
    pub(crate) json: bool,
    /// Write all that was measured to a file, for 'quell lab report' and 'compare'.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Send InfluxDB's line protocol as each block ends: to a file, udp://HOST:PORT or http://HOST:PORT/write?db=NAME.
    #[arg(long, value_name = "WHERE", value_parser = quell_export::influx::SinkTarget::parse)]
    pub(crate) influx: Option<quell_export::influx::SinkTarget>,
}

/// Not used by clap, but what a hidden verb is started with.
pub(crate) fn worker_words() -> [OsString; 2] {
    ["lab".into(), "worker".into()]
}

/// The same, for what sets the system up.
pub(crate) fn guard_words() -> [OsString; 2] {
    ["lab".into(), "guard".into()]
}

/// The same, for what measures a part of a curve.
pub(crate) fn curve_worker_words() -> [OsString; 2] {
    ["lab".into(), "curve-worker".into()]
}
