//! Traces in the forms that other tools read.
//!
//! Each format is a module with a `write` that streams: rows are not kept, and memory grows only with the number of stacks,
//! threads, causes and CPUs. `docs/exports.md` shows each format in its tool.

pub mod csv;
pub mod folded;
pub mod hgrm;
pub mod hlog;
pub mod influx;
pub mod lab;
mod measure;
pub mod perfetto;
pub mod pprof;
mod rows;
mod samples;
pub mod speedscope;
#[cfg(test)]
mod tests;

pub use measure::Measure;
pub use rows::{Rows, Stacks};
pub use samples::SampleWeight;
