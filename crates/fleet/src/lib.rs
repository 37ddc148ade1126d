//! Questions over the traces of many hosts.
//!
//! The questions are SQL, a file each under `sql/`, and run unchanged on DuckDB and on Spark: over views of the traces' Parquet
//! files and of small tables that are made from the files beside them. [`find_traces`] looks for the traces, a [`PreparedFolder`]
//! holds the files behind the views, and [`EngineJob`] runs an engine by Python.

mod dates;
mod find;
mod job;
mod prepared;
mod question;
mod schema;

use quell_event::named_enum;

pub use dates::{Since, day};
pub use find::{FoundTrace, TraceTree, find_traces};
pub use job::{EngineError, EngineJob, QuestionAnswer};
pub use prepared::PreparedFolder;
pub use question::{Question, SUMMARY_QUESTIONS};
pub use schema::{
    CallStackRow, CodeAccountRow, MADE_TABLES, ProcessRow, RemedyRow, TableRow, TraceRow, WinRow,
    view_statements,
};

named_enum! {
    /// An engine that runs SQL; the names are those of `quell fleet --engine`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Engine {
        /// DuckDB, in Python's process.
        #[default]
        DuckDb = "duckdb",
        /// Spark, on this machine.
        Spark = "spark",
    }
}

/// A day, ns.
pub const DAY_NS: u64 = 86_400_000_000_000;
