//! The vocabulary of quell as types, the tallies and histograms, and the trace format.

pub mod account;
mod cause;
mod earlier;
pub mod histogram;
mod interrupt_matrix;
mod interruption;
mod ipi;
mod mechanism;
mod named_enum;
mod shootdown;
mod tally;
pub mod tally_summary;
pub mod text;
pub mod trace;
mod watch_interval;

pub use account::{Account, AccountRow, HolderRole, HolderRow, MechanismPart, ProcessTime};
pub use cause::Cause;
pub use histogram::Histogram;
pub use interrupt_matrix::InterruptMatrix;
pub use interruption::{Backtraces, Interruption, InterruptionKind, ShootdownPath};
pub use ipi::{CallKind, CallTally, CallVictim, FunctionCalls};
pub use mechanism::Mechanism;
pub use named_enum::UnknownName;
pub use shootdown::{Comm, NO_STACK, Shootdown, ShootdownVictim};
pub use tally::{CROWDED_NAME, CulpritTally, ProbeLosses, ShootdownCounts, Tally, VictimTally};
pub use tally_summary::TallySummary;
pub use text::Text;
pub use watch_interval::{CgroupCost, CodeCost, WatchInterval};
