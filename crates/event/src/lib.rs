//! The vocabulary of quell as types, the tallies and histograms, and the trace format.

mod cause;
pub mod hist;
mod interruption;
mod ipi;
mod matrix;
mod shootdown;
pub mod summary;
mod tally;
pub mod text;
pub mod trace;

pub use cause::{Cause, UnknownCause};
pub use hist::Histogram;
pub use interruption::{Backtraces, Interruption, InterruptionKind, Way};
pub use ipi::{CallKind, CallTally, CallVictim, Calls};
pub use matrix::Matrix;
pub use shootdown::{Comm, NO_STACK, Shootdown, Victim};
pub use summary::Summary;
pub use tally::{Counts, CulpritTally, Lost, MORE, Tally, VictimTally};
pub use text::Text;
