//! The vocabulary of quell as types, the tallies and histograms, and the trace format.

pub mod account;
mod cause;
pub mod hist;
mod interruption;
mod ipi;
mod matrix;
mod mechanism;
mod shootdown;
pub mod summary;
mod tally;
pub mod text;
pub mod trace;
mod watched;

pub use account::{Account, AccountRow, HolderRole, HolderRow, Part, ProcessTime};
pub use cause::{Cause, UnknownCause};
pub use hist::Histogram;
pub use interruption::{Backtraces, Interruption, InterruptionKind, Way};
pub use ipi::{CallKind, CallTally, CallVictim, Calls};
pub use matrix::Matrix;
pub use mechanism::{Mechanism, UnknownMechanism};
pub use shootdown::{Comm, NO_STACK, Shootdown, Victim};
pub use summary::Summary;
pub use tally::{Counts, CulpritTally, Lost, MORE, Tally, VictimTally};
pub use text::Text;
pub use watched::{Watched, WatchedCode, WatchedRow};
