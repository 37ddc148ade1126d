//! The probe: eBPF programs that see every shootdown, their loader, causes and symbols.

mod account;
mod backend;
mod call_site;
mod calls;
mod causes;
mod error;
mod frames;
mod interner;
mod interruptions;
mod ipi;
mod kernel;
mod layout;
mod living;
mod loader;
mod perf_event;
mod recent;
mod records;
mod resolve;
mod ring;
mod samples;
mod symbols;
mod unwind;
mod walks;

pub use account::{Accounting, SinglesTaken, Watch, usual_period_ns};
pub use backend::Backend;
pub use error::{Error, Result};
pub use interner::NewStack;
pub use interruptions::Interruptions;
pub use living::name_living;
pub use loader::{Keep, Options, Probe, Scope, Stacks, Timed};
pub use records::{Records, Sink};
pub use resolve::Resolver;
pub use samples::{Sample, Samples};
pub use symbols::name_frames;
pub use walks::Walks;
