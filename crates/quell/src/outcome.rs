//! The end of a command: reported in a line where it is unusual, and passed on as quell's own status.

use std::ffi::OsString;
use std::process::ExitCode;

use crate::launch::{Ended, Status, signals};

fn program_name(argv: &[OsString]) -> String {
    let first = argv.first().map(|w| w.to_string_lossy().into_owned());
    first.unwrap_or_default()
}

/// Says that a signal ends quell alone, and returns the status for it.
pub(crate) fn left(argv: &[OsString], pids: &[u32], signal: i32) -> ExitCode {
    let pids: Vec<_> = pids.iter().map(u32::to_string).collect();
    let (name, signal_name) = (program_name(argv), signals::signal_name(signal));
    say!(
        "quell: ended by {signal_name}; '{name}' ({}) runs on",
        pids.join(", ")
    );
    by_signal(signal)
}

/// The exit status for a signal, as a shell gives it.
pub(crate) fn by_signal(signal: i32) -> ExitCode {
    Status::Signal(signal).exit_code()
}

/// Reports an unusual end of a command, and returns its status.
pub(crate) fn finish(argv: &[OsString], ended: &Ended, leftovers: &[(u32, String)]) -> ExitCode {
    let name = program_name(argv);
    if let Status::Signal(signal) = ended.status {
        say!(
            "quell: '{name}' was ended by {}",
            signals::signal_name(signal)
        );
    }
    if !leftovers.is_empty() {
        let list: Vec<_> = leftovers
            .iter()
            .map(|(pid, comm)| format!("{comm} ({pid})"))
            .collect();
        let list = list.join(", ");
        say!("quell: '{name}' has ended, but left running: {list}; they were watched until now");
    }
    ended.status.exit_code()
}
