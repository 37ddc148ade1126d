//! The command line of `quell fleet`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use quell_fleet::{Engine, Since};

#[derive(Args, Debug)]
#[command(
    after_help = "Questions: causes, binaries, stacks, hosts, changes, remedies, victims; without one, the most important.\n\
                  Days of --since are counted back from the newest trace. docs/fleet.md has the rest.\n\
                  Exit status: 0 done, 1 the engine failed, 2 bad usage, no trace, or the engine is not there."
)]
pub(crate) struct FleetArgs {
    /// The questions, and last the folder that holds the traces, at whatever depth.
    #[arg(value_name = "QUESTION|DIR", required_unless_present_any = ["list", "sql"])]
    pub(crate) words: Vec<OsString>,
    /// The engine that runs the SQL.
    #[arg(long, value_enum, default_value_t, value_name = "NAME")]
    pub(crate) engine: EngineName,
    /// The Python that has the engine's module.
    #[arg(
        long,
        value_name = "PATH",
        env = "QUELL_PYTHON",
        default_value = "python3"
    )]
    pub(crate) python: OsString,
    /// Use traces of the last DAYS, since a date, or of FROM..TO only. With 'changes', compare these with as many days before.
    #[arg(long, value_name = "DAYS|DATES")]
    pub(crate) since: Option<Since>,
    /// The most rows of each answer [default for --json and --csv: all].
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) top: Option<u32>,
    /// Print one JSON object.
    #[arg(long, conflicts_with = "csv")]
    pub(crate) json: bool,
    /// Print the answer to one question as CSV.
    #[arg(long)]
    pub(crate) csv: bool,
    /// List the questions.
    #[arg(long, conflicts_with_all = ["words", "sql", "csv", "json", "prepare"])]
    pub(crate) list: bool,
    /// Print the SQL of a question.
    #[arg(long, value_name = "QUESTION", conflicts_with_all = ["words", "csv", "json", "prepare"])]
    pub(crate) sql: Option<String>,
    /// Run no question: fill a new folder with the tables and the definitions of the views, for an engine of your own.
    #[arg(long, value_name = "OUT", conflicts_with_all = ["csv", "json"])]
    pub(crate) prepare: Option<PathBuf>,
}

/// The engine that runs the SQL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum EngineName {
    /// Python's duckdb.
    #[default]
    Duckdb,
    /// Python's pyspark, with the machine's Java.
    Spark,
}

impl From<EngineName> for Engine {
    fn from(name: EngineName) -> Self {
        match name {
            EngineName::Duckdb => Self::DuckDb,
            EngineName::Spark => Self::Spark,
        }
    }
}
