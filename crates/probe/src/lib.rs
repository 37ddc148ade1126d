//! The probe: eBPF programs that see every shootdown, their loader, causes and symbols.

mod calls;
mod causes;
mod error;
mod frames;
mod kernel;
mod layout;
mod loader;

pub use error::{Error, Result};
pub use loader::{Options, Probe, Scope, Stacks};
