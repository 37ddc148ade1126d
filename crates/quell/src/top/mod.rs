//! The live view: the counts of one interval, the state of the view, and how it is drawn.
//!
//! ```text
//! interval_source ──> interval ──> grid ──┬──> draw ──> terminal
//!   watcher, sampler ────────────────┘ ▲  └──> text
//!                             keys ──> state
//! ```
//!
//! Only `interval_source`, `watcher`, `attach` and `sampler` touch the kernel, and only `terminal` the terminal; all between is
//! pure.

pub(crate) mod account;
mod alarm;
pub(crate) mod attach;
mod calls;
pub(crate) mod close_up;
mod count_columns;
pub(crate) mod draw;
pub(crate) mod filter;
pub(crate) mod grid;
pub(crate) mod heat;
pub(crate) mod interval;
pub(crate) mod interval_source;
pub(crate) mod json;
mod keys;
pub(crate) mod regions;
mod sampler;
pub(crate) mod state;
mod tables;
pub(crate) mod terminal;
pub(crate) mod text;
mod watcher;

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod screens;
