//! The trace: a directory that any Parquet reader understands and that kill -9 can't spoil.
//!
//! Events are appended to an open tail (an Arrow stream, of which every whole batch can be read
//! however it ends) and sealed into Parquet a million rows at a time, in the background. The meaning of every
//! file and column is in `docs/trace-format.md`. Waits and samples are kept in the same way, in files of their own.

mod background;
mod catch_panic;
mod cause_memo;
mod comm;
mod error;
mod event_batch;
mod event_columns;
mod event_row;
mod file_names;
mod flat;
mod flat_pending;
mod flat_read;
mod intern;
mod jsonl;
mod meta;
mod parallel_sum;
mod parquet_file;
mod parquet_guard;
mod parquet_read;
mod parquet_schema;
mod parquet_write;
mod read_ahead;
mod reader;
mod sample_row;
mod schema;
mod seal;
mod sealer;
mod segments;
mod side_tables;
mod stack_end;
mod table_columns;
mod tail_frame;
mod tail_read;
mod tail_schema;
mod tail_write;
mod wait_row;
mod writer;

#[cfg(test)]
mod tests;

pub use error::TraceError;
pub use event_row::{EventRow, UNSEEN_CPU};
pub use flat_read::TableReadCounts;
pub use meta::{RecordingEnd, TraceMeta};
pub use parallel_sum::RowSums;
pub use reader::{SideTable, Trace};
pub use sample_row::SampleRow;
pub use schema::TRACE_SCHEMA;
pub use side_tables::{
    MappedModule, MissingNameReason, OUTER_FRAMES_MISSING, StackCost, StackFrame, StackKind,
    TracedProcess, TracedStack,
};
pub use wait_row::WaitRow;
pub use writer::{RecordingSummary, SealProgress, TraceWriter};
