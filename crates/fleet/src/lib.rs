//! Questions over the traces of many hosts.
//!
//! The questions are SQL, a file each under `sql/`, and run as they are on DuckDB and on Spark, over views of the traces'
//! Parquet files and of small tables that are made of what stands beside these. [`find`] looks for the traces, a
//! [`Prepared`] folder holds what the views are of, and [`Job`] has Python run an engine.

mod dates;
mod find;
mod job;
mod prepared;
mod question;
mod schema;

pub use dates::{Since, day};
pub use find::{Found, Tree, find};
pub use job::{Answer, Failed, Job, Missing};
pub use prepared::Prepared;
pub use question::{Question, SUMMARY};
pub use schema::{AccountOfCode, Process, Remedy, Stack, TABLES, Trace, Win, views};

/// An engine that runs SQL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Engine {
    /// DuckDB, in Python's process.
    #[default]
    DuckDb,
    /// Spark, on this machine.
    Spark,
}

impl Engine {
    /// Its name, as in `--engine`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::DuckDb => "duckdb",
            Self::Spark => "spark",
        }
    }

    /// What to install for it from PyPI.
    #[must_use]
    pub fn package(self) -> &'static str {
        match self {
            Self::DuckDb => "duckdb",
            Self::Spark => "pyspark",
        }
    }
}

/// A day, ns.
pub const DAY_NS: u64 = 86_400_000_000_000;
