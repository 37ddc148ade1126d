//! Files to be mapped, without a name, so that nothing is left behind whatever happens.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::PathBuf;

use rustix::fs::{MemfdFlags, memfd_create};

/// The folders for files, the first of which that works is taken: it is on a disk, while /tmp may be tmpfs, which writes nothing
/// back.
pub(crate) fn file_folders() -> [PathBuf; 2] {
    [PathBuf::from("/var/tmp"), std::env::temp_dir()]
}

/// A file on a disk, all zero.
pub(crate) fn create_on_disk(bytes: usize) -> io::Result<File> {
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for folder in file_folders() {
        let opened = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_TMPFILE)
            .open(&folder);
        match opened {
            Ok(file) => {
                file.set_len(u64::try_from(bytes).unwrap_or(u64::MAX))?;
                return Ok(file);
            }
            Err(err) => {
                last = io::Error::new(
                    err.kind(),
                    format!("can't make a file in {}: {err}", folder.display()),
                );
            }
        }
    }
    Err(last)
}

/// A file that is on its disk already, and has no hole: its blocks exist when a page is dirtied, and its clean pages can be
/// reclaimed.
pub(crate) fn create_written(bytes: usize) -> io::Result<File> {
    let file = create_on_disk(bytes)?;
    fill_file(&file, bytes)?;
    file.sync_all()?;
    Ok(file)
}

/// A file in memory, all zero.
pub(crate) fn create_in_memory(bytes: usize) -> io::Result<File> {
    let file = File::from(memfd_create("quell-lab", MemfdFlags::CLOEXEC)?);
    file.set_len(u64::try_from(bytes).unwrap_or(u64::MAX))?;
    Ok(file)
}

/// Writes all bytes of a file.
fn fill_file(file: &File, bytes: usize) -> io::Result<()> {
    const CHUNK_BYTES: usize = 1 << 16;
    let chunk = vec![b'q'; CHUNK_BYTES.min(bytes)];
    for at in (0..bytes).step_by(CHUNK_BYTES) {
        let now = chunk.len().min(bytes - at);
        file.write_all_at(&chunk[..now], at as u64)?;
    }
    Ok(())
}
