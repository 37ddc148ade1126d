//! The live view: what one interval holds, what the user looks at, and how it is drawn.
//!
//! ```text
//! source ──> sample ──> grid ──┬──> draw ──> term
//!   watcher, sampler ─────┘ ▲  └──> text
//!                  keys ──> state
//! ```
//!
//! Only `source`, `watcher`, `attach` and `sampler` touch the kernel, and only `term` the terminal; all between is pure.

pub(crate) mod account;
mod alarm;
pub(crate) mod attach;
mod calls;
pub(crate) mod detail;
pub(crate) mod draw;
pub(crate) mod filter;
pub(crate) mod grid;
pub(crate) mod heat;
pub(crate) mod json;
mod keys;
pub(crate) mod regions;
mod rows;
pub(crate) mod sample;
mod sampler;
pub(crate) mod source;
pub(crate) mod state;
mod tables;
pub(crate) mod term;
pub(crate) mod text;
mod watcher;

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod screens;
