//! libquell.so: carried inside quell, put where programs can load it, and read while they run.

use quell_shim::os::Linux;
use quell_shim::{Kernel as _, Pressure};

pub(crate) mod counters;
mod library;
mod watched;

pub(crate) use library::{place, resolve};
pub(crate) use watched::Library;

/// What the library asks before it keeps anything, in a process of quell's control group and limits.
pub(crate) fn memory_is_short() -> bool {
    Linux::new().pressure() == Some(Pressure::Some)
}
