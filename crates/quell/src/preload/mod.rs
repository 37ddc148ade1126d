//! libquell.so: carried inside quell, put where programs can load it, and read while they run. And the programs that bear a
//! preload library.

use quell_shim::os::Linux;
use quell_shim::{Kernel as _, Pressure};

pub(crate) mod counters;
pub(crate) mod file_rights;
pub(crate) mod fitness;
mod library;
mod watched;

pub(crate) use library::{find_or_write_library, put_library_path};
pub(crate) use watched::Library;

/// Whether memory is short, by the same check that the library makes in a process with quell's control group and limits.
pub(crate) fn memory_is_short() -> bool {
    Linux::new().memory_pressure() == Some(Pressure::Some)
}
