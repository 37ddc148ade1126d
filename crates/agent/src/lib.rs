//! What a fleet's tools are told of a host, again and again and for months.
//!
//! ```text
//! tally ──> Totals ──> Figures ──> openmetrics, influx, otlp ──> serve, push
//!              │
//!           Groups (which cgroups have names)
//! ```
//!
//! Beside it: `trigger` says when a trace is worth its cost, `look_back` what was before it, and `ring` keeps room for it.
//!
//! Nothing here grows with the number of processes or cgroups, or with time; what found no room is counted.

pub mod cgroups;
pub mod config;
pub mod figures;
pub mod groups;
pub mod influx;
pub mod look_back;
pub mod openmetrics;
pub mod otlp;
pub mod push;
pub mod renewed;
pub mod ring;
pub mod secret;
pub mod serve;
mod small;
pub mod tls;
pub mod totals;
pub mod trigger;
