//! How a command ended, said in a line where it is worth one, and passed on as quell's own status.

use std::ffi::OsString;
use std::process::ExitCode;

use crate::launch::{Ended, Status, signals};

/// Says what is unusual about the end of a command, and returns its status.
pub(crate) fn finish(argv: &[OsString], ended: &Ended, leftovers: &[(u32, String)]) -> ExitCode {
    let name = argv
        .first()
        .map(|w| w.to_string_lossy().into_owned())
        .unwrap_or_default();
    if let Status::Signal(signal) = ended.status {
        say!("quell: '{name}' was ended by {}", signals::name(signal));
    }
    if !leftovers.is_empty() {
        let list: Vec<_> = leftovers
            .iter()
            .map(|(pid, comm)| format!("{comm} ({pid})"))
            .collect();
        let list = list.join(", ");
        match signals::interrupted() {
            None => say!(
                "quell: '{name}' has ended, but left running: {list}; they were watched until now"
            ),
            // which it does itself then (launch/running.rs)
            Some(_) => say!("quell: '{name}' has ended, and quell now stops what it left: {list}"),
        }
    }
    ended.status.exit_code()
}
