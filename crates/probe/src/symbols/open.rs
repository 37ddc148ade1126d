//! Opens files as another process sees them.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use memmap2::Mmap;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};

/// Never waits for a writer of a pipe, nor takes a terminal: the path may be anybody's.
const READ: OFlags = OFlags::RDONLY
    .union(OFlags::CLOEXEC)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY);

/// A folder to open files under.
pub(super) fn folder(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(CWD, path, flags, Mode::empty())?)
}

/// The regular file at a path under this folder, which stands for `/`: an absolute symlink in a
/// container means a file of the container (openat2(2), RESOLVE_IN_ROOT).
pub(super) fn within(root: impl AsFd, path: &Path) -> io::Result<File> {
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let fd = rustix::fs::openat2(root, path, READ, Mode::empty(), resolve)?;
    regular(File::from(fd))
}

/// The regular file with this name in this folder itself, and no link to one elsewhere.
pub(super) fn beside(folder: impl AsFd, name: &Path) -> io::Result<File> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let fd = rustix::fs::openat2(folder, name, READ, Mode::empty(), resolve)?;
    regular(File::from(fd))
}

/// The file behind a link of /proc/PID/map_files, which leads to the file that is mapped, whatever
/// has become of its name. Needs CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE (fs/proc/base.c,
/// proc_map_files_get_link).
pub(super) fn mapped(link: &Path) -> io::Result<File> {
    // before it is opened: a device that is mapped may notice
    if !std::fs::metadata(link)?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    regular(File::from(rustix::fs::openat(
        CWD,
        link,
        READ,
        Mode::empty(),
    )?))
}

fn regular(file: File) -> io::Result<File> {
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::ErrorKind::InvalidInput.into())
    }
}

/// The contents of a file.
pub(super) fn map(file: &File) -> io::Result<Mmap> {
    // SAFETY: the map is private and read only. Programs and libraries are replaced by rename, which
    // leaves the inode as it is; one that is truncated in place kills its own users by the same signal.
    unsafe { Mmap::map(file) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::os::unix::fs::symlink;

    /// Check that an absolute link stays inside the folder, and that a pipe is neither waited for nor taken.
    #[test]
    fn paths_stay_inside() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("etc")).unwrap();
        std::fs::write(dir.path().join("etc/passwd"), "inside").unwrap();
        symlink("/etc/passwd", dir.path().join("absolute")).unwrap();
        symlink("../../../../etc/passwd", dir.path().join("relative")).unwrap();
        let root = folder(dir.path()).unwrap();
        for path in ["/absolute", "relative", "/etc/passwd"] {
            let mut text = String::new();
            within(&root, Path::new(path))
                .unwrap()
                .read_to_string(&mut text)
                .unwrap();
            assert_eq!(text, "inside", "{path}");
        }
        assert!(beside(&root, Path::new("absolute")).is_err());
        assert!(beside(&root, Path::new("../x")).is_err());
        assert!(within(&root, Path::new("/etc")).is_err());
        let pipe = dir.path().join("pipe");
        let made = std::process::Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap();
        assert!(made.success());
        assert!(within(&root, Path::new("pipe")).is_err());
        assert!(beside(&root, Path::new("pipe")).is_err());
    }
}
