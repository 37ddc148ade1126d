//! The agent's figures of a host, and the formats and ways in which a fleet's tools get them, for months.
//!
//! ```text
//! tally ──> HostTotals ──> HostFigures ──> openmetrics, influx, otlp ──> serve, push
//!               │
//!         NamedCgroups (which cgroups have names)
//! ```
//!
//! Beside it, `trigger` decides when a trace is worth its cost, `look_back` keeps the counts from before it, and `trace_ring`
//! keeps room for it.
//!
//! Nothing here grows with the number of processes or cgroups, or with time; counts that find no room are told as lost.

pub mod cgroup_names;
pub mod config;
pub mod influx;
pub mod look_back;
pub mod metric_families;
pub mod named_cgroups;
pub mod openmetrics;
pub mod otlp;
pub mod push;
pub mod reloaded_files;
pub mod serve;
mod small_file;
pub mod tls;
pub mod token_file;
pub mod totals;
pub mod trace_ring;
pub mod trigger;
pub mod victim_hits;
