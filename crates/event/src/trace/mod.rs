//! The trace: a directory that any Parquet reader understands and that kill -9 can't spoil.
//!
//! Events are appended to an open tail (an Arrow stream, of which every whole batch can be read
//! however it ends) and sealed into Parquet a million rows at a time, in the background. What every
//! file and column means is in `docs/trace-format.md`. Waits and samples are kept in the same way, in files of their own.

mod ahead;
mod background;
mod cause_memo;
mod columns;
mod error;
mod flat;
mod intern;
mod jsonl;
mod meta;
mod names;
mod parquet_batch;
mod parquet_file;
mod parquet_guard;
mod parquet_read;
mod parquet_schema;
mod parts;
mod quiet;
mod reader;
mod row;
mod sample;
mod seal;
mod sealer;
mod segments;
mod side;
mod tail_frame;
mod tail_read;
mod tail_schema;
mod tail_write;
mod wait;
mod whole;
mod writer;

#[cfg(test)]
mod tests;

pub use error::Error;
pub use flat::Read;
pub use meta::{Ended, Meta, SCHEMA};
pub use parts::Sums;
pub use reader::{Table, Trace};
pub use row::{Row, UNSEEN_CPU};
pub use sample::Sample;
pub use side::{Frame, Mark, Module, OUTER_MISSING, Process, Stack, StackCost, StackKind};
pub use wait::Wait;
pub use writer::{Progress, Summary, Writer};
