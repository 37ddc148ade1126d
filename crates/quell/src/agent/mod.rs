//! The readings that `quell agent` takes of this host, and its work. The figures' formats and their delivery are the crate
//! quell-agent's.

pub(crate) mod config_file;
pub(crate) mod figures;
pub(crate) mod look_back;
pub(crate) mod own;
pub(crate) mod recorder;
pub(crate) mod source;
pub(crate) mod watch;
