//! Opens files that others may have put in place of what they should be.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Opens a regular file; `refusal` is the error for anything else. A pipe without a writer would block quell for ever, and a device
/// has no end.
pub(crate) fn open_regular_file(path: &Path, refusal: &'static str) -> io::Result<File> {
    let regular = |is_file: bool| match is_file {
        true => Ok(()),
        false => Err(io::Error::other(refusal)),
    };
    // This is checked before it is opened, because opening alone may have an effect on a device.
    regular(fs::metadata(path)?.is_file())?;
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    regular(file.metadata()?.is_file())?;
    Ok(file)
}
