//! The command lines of the other verbs of `quell lab`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use quell_lab::params;

use super::number;

#[derive(Args, Debug)]
pub(crate) struct LabWatchArgs {
    /// The CPU to watch: a thread of quell spins there and wants to run all the time.
    #[arg(long, value_name = "CPU")]
    pub(crate) cpu: u32,
    /// Stop after this time.
    #[arg(short, long, value_name = "SECONDS", value_parser = number::parse_seconds)]
    pub(crate) duration: Option<f64>,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
    /// The most lines in the table of culprits.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10)]
    pub(crate) top: usize,
    /// A command to run meanwhile; the watch ends with it.
    #[arg(last = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Args, Debug)]
pub(crate) struct SeedMadvArgs {
    /// Numbers of threads, each on a CPU of its own [default: 2, 8 and 14, as far as there are CPUs].
    #[arg(long, value_name = "N", value_delimiter = ',')]
    pub(crate) threads: Vec<usize>,
    /// The number of calls of each thread.
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub(crate) calls: u64,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct SeedJemallocArgs {
    /// A libjemalloc.so to load; repeatable [default: those of the system].
    #[arg(long, value_name = "FILE")]
    pub(crate) lib: Vec<PathBuf>,
    /// The number of rounds, each with every setting once in random order.
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u64).range(1..=100))]
    pub(crate) rounds: u64,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct AllocatorsArgs {
    /// An allocator to load in place of the process's own; repeatable [default: the jemalloc, mimalloc and tcmalloc of the
    /// system].
    #[arg(long, value_name = "FILE")]
    pub(crate) lib: Vec<PathBuf>,
    /// Change a parameter of alloc-free; sizes may end in k, M or G. Repeatable.
    #[arg(long, value_name = "NAME=NUMBER", value_parser = params::parse_param)]
    pub(crate) set: Vec<(String, u64)>,
    /// The most time for each allocator.
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) budget: u64,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct LabAdviseArgs {
    /// The most time for each experiment.
    #[arg(long, value_name = "SECONDS", default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) budget: u64,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}
