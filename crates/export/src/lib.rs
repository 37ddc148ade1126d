//! Traces in the forms that other tools read.
//!
//! Each format is a module with a `write` that streams: rows come and go, and memory grows only with
//! what is told apart (stacks, threads, causes, CPUs). What one sees in each is in
//! `docs/exports.md`.

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
pub use samples::Weight;
