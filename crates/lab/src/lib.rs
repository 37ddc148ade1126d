//! The lab: causes one kind of stall on purpose and measures it, with controls.
//!
//! A *victim* spins on one CPU and writes down every gap in the time stamp counter. A *culprit* on another CPU
//! repeats one operation. There are three arms: *idle* (no culprit), *sham* (the same culprit in another address
//! space, which may disturb the machine but has nothing to shoot down at the victim) and *real* (the culprit shares
//! the victim's address space). Blocks of a fraction of a second follow each other in rounds, the arms of a round
//! in an order that chance decides. Every gap is laid beside the probe's records of that CPU, so that a gap has a
//! cause and not just a length.
//!
//! Data flows one way:
//!
//! ```text
//! mechanism ─> culprit ┐
//!                      ├─> worker (a process) ─> block ─> attribute ─> experiment ─> judge
//! tsc ───────> victim  ┘
//! ```

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod arm;
pub mod attribute;
pub mod block;
pub mod churn;
mod cpu_lost;
pub mod cpu_watch;
pub mod curve;
pub mod experiment;
mod failures;
pub mod gap_owners;
pub mod hit;
pub mod host_api;
pub mod judge;
mod kernel_threads;
mod lengths;
pub mod madv;
mod malloc_block;
mod measure_block;
pub mod mechanism;
pub mod memory;
mod os_result;
pub mod params;
pub mod pin;
pub mod preload;
pub mod protocol;
pub mod resources;
pub mod round;
pub mod summary;
pub mod system;
pub mod tsc;
mod unnamed_file;
pub mod victim;
pub mod worker;
mod worker_answers;
pub mod worker_handle;
mod worker_process;
mod worker_signals;
