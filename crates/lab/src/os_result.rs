//! The result of a call of libc's that returns -1 and sets errno where it fails.

use std::io;

/// Nothing, or the error that the call has just left in errno.
pub(crate) fn os_result(returned: i32) -> io::Result<()> {
    match returned {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
