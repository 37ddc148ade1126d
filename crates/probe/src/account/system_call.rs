//! System calls by their number in the table of x86-64.

use syscalls::Sysno;

/// The call of a number as the probe has it, which is negative for what is no call.
pub(super) fn system_call(nr: i32) -> Option<Sysno> {
    Sysno::new(usize::try_from(nr).ok()?)
}
