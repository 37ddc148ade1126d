//! libquell.so: carried inside quell, put where programs can load it, and read while they run.

pub(crate) mod counters;
mod library;
mod watched;

pub(crate) use library::{place, resolve};
pub(crate) use watched::Library;
