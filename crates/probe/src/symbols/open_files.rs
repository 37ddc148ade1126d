//! Opens files as another process sees them.
//!
//! A path out of a trace or a container may be anybody's, and some devices do something when they are
//! opened: a watchdog starts, a tape rewinds. So each is found first without being opened (open(2),
//! `O_PATH`), and opened only if it turns out to be a regular file.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::path::Path;

use quell_host::contents::Contents;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};

/// Flags that find a file without opening it.
const FIND_FLAGS: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// Flags that read a file and never wait: another process may hold a lease on it (fcntl(2), `F_SETLEASE`).
const READ_FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::CLOEXEC)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY);

/// Keeps the path inside the root: an absolute symlink in a container means a file of the container.
const INSIDE_ROOT: ResolveFlags = ResolveFlags::IN_ROOT.union(ResolveFlags::NO_MAGICLINKS);

/// The most bytes of a file that are read: a large browser has 300 MB of symbols and their names.
const MAX_CONTENT_BYTES: u64 = 1 << 30;

/// The most bytes of headers and notes that are read. Most files have less than 4 KiB.
const MAX_HEADER_BYTES: u64 = 4 << 20;

/// A folder to open files under.
pub(super) fn open_folder(path: &Path) -> io::Result<OwnedFd> {
    let flags = FIND_FLAGS.union(OFlags::DIRECTORY);
    Ok(rustix::fs::openat(CWD, path, flags, Mode::empty())?)
}

/// The folder at a path under another one, which stands for `/`.
pub(super) fn open_folder_within(root: impl AsFd, path: &Path) -> io::Result<OwnedFd> {
    let flags = FIND_FLAGS.union(OFlags::DIRECTORY);
    Ok(rustix::fs::openat2(
        root,
        path,
        flags,
        Mode::empty(),
        INSIDE_ROOT,
    )?)
}

/// The regular file at a path under this folder, which stands for `/`.
pub(super) fn open_within(root: impl AsFd, path: &Path) -> io::Result<File> {
    let found = rustix::fs::openat2(root, path, FIND_FLAGS, Mode::empty(), INSIDE_ROOT)?;
    open_regular(&found)
}

/// The regular file with this name in this folder itself, and no link to one elsewhere.
pub(super) fn open_beside(folder: impl AsFd, name: &Path) -> io::Result<File> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let found = rustix::fs::openat2(folder, name, FIND_FLAGS, Mode::empty(), resolve)?;
    open_regular(&found)
}

/// The file behind a link of /proc/PID/map_files, which leads to the mapped file even when its name is gone
/// or taken by another. It needs CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE (fs/proc/base.c,
/// proc_map_files_get_link).
pub(super) fn open_mapped(link: &Path) -> io::Result<File> {
    open_regular(&rustix::fs::openat(CWD, link, FIND_FLAGS, Mode::empty())?)
}

/// Opens a file that was found for reading, if it is a regular one.
fn open_regular(found: &OwnedFd) -> io::Result<File> {
    // fstat(2) works on a descriptor that only found the file, too.
    let kind = rustix::fs::fstat(found)?.st_mode;
    if !rustix::fs::FileType::from_raw_mode(kind).is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // This opens the same file, even if another lies at its path by now. It goes through our own /proc, because the one under
    // the root belongs to the other process.
    let again = format!("/proc/self/fd/{}", found.as_raw_fd());
    let file = rustix::fs::openat(CWD, again, READ_FLAGS, Mode::empty())?;
    Ok(File::from(file))
}

/// The contents of a file, to be read as they are asked for.
pub(super) fn whole_contents(file: File) -> io::Result<Contents> {
    Contents::new(file, MAX_CONTENT_BYTES)
}

/// The contents of its headers, which have the build id and are read while a recording measures.
pub(super) fn header_contents(file: &File) -> io::Result<Contents> {
    Contents::new(file.try_clone()?, MAX_HEADER_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::os::unix::fs::symlink;

    /// Check that an absolute link stays inside the folder.
    #[test]
    fn paths_stay_inside() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("etc")).unwrap();
        std::fs::write(dir.path().join("etc/passwd"), "inside").unwrap();
        symlink("/etc/passwd", dir.path().join("absolute")).unwrap();
        symlink("../../../../etc/passwd", dir.path().join("relative")).unwrap();
        let root = open_folder(dir.path()).unwrap();
        for path in ["/absolute", "relative", "/etc/passwd"] {
            let mut text = String::new();
            open_within(&root, Path::new(path))
                .unwrap()
                .read_to_string(&mut text)
                .unwrap();
            assert_eq!(text, "inside", "{path}");
        }
        assert!(open_beside(&root, Path::new("absolute")).is_err());
        assert!(open_beside(&root, Path::new("../x")).is_err());
        assert!(open_within(&root, Path::new("/etc")).is_err());
        symlink("/etc", dir.path().join("tmp")).unwrap();
        let etc = open_folder_within(&root, Path::new("tmp")).unwrap();
        let mut text = String::new();
        open_beside(&etc, Path::new("passwd"))
            .unwrap()
            .read_to_string(&mut text)
            .unwrap();
        assert_eq!(text, "inside");
        assert!(open_folder_within(&root, Path::new("absolute")).is_err());
    }

    /// Check that what is no regular file is not even opened: a pipe, a device, a link to one.
    #[test]
    fn only_regular_files_are_opened() {
        use rustix::fs::inotify;
        let dir = tempfile::tempdir().unwrap();
        let (pipe, plain) = (dir.path().join("pipe"), dir.path().join("plain"));
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        std::fs::write(&plain, "x").unwrap();
        symlink("pipe", dir.path().join("link")).unwrap();
        let flags = inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC;
        let watch = inotify::init(flags).unwrap();
        inotify::add_watch(&watch, &pipe, inotify::WatchFlags::OPEN).unwrap();
        let root = open_folder(dir.path()).unwrap();
        for name in ["pipe", "link"] {
            assert!(open_within(&root, Path::new(name)).is_err());
            assert!(open_beside(&root, Path::new(name)).is_err());
            assert!(open_mapped(&dir.path().join(name)).is_err());
        }
        assert!(open_within(open_folder(Path::new("/")).unwrap(), Path::new("dev/null")).is_err());
        let mut room = [std::mem::MaybeUninit::uninit(); 512];
        let none = inotify::Reader::new(&watch, &mut room).next().err();
        assert_eq!(none, Some(rustix::io::Errno::AGAIN));
        // what the watch would have told
        inotify::add_watch(&watch, &plain, inotify::WatchFlags::OPEN).unwrap();
        assert!(open_beside(&root, Path::new("plain")).is_ok());
        assert!(inotify::Reader::new(&watch, &mut room).next().is_ok());
    }
}
