//! When the mappings of two processes are of one file.
//!
//! A device and an inode tell that where the device has a major number. Btrfs, overlayfs and some more
//! have none: all subvolumes of a btrfs have one device in /proc/PID/maps, and snapshots, which images
//! of containers are, number their inodes alike. Two such files are one only if their contents say so.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The key by which a file is found again without looking at it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct FileIdentity {
    dev: u64,
    inode: u64,
    /// The process, and where it sees the file, if the device has no major number.
    seen: Option<(u32, PathBuf)>,
}

impl FileIdentity {
    /// The key of a file that the process has mapped.
    pub(super) fn new(pid: u32, dev: u64, inode: u64, path: &Path) -> Self {
        let seen = (libc::major(dev) == 0).then(|| (pid, path.to_owned()));
        Self { dev, inode, seen }
    }
}

/// Size, time and device, by which an opened file without a build id is told from others of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileStamp {
    size: u64,
    /// When it was last written: seconds and nanoseconds.
    written: (i64, i64),
    /// As stat(2) numbers it, which differs between the subvolumes of a btrfs.
    dev: u64,
}

impl FileStamp {
    pub(super) fn of(meta: &Metadata) -> Self {
        Self {
            size: meta.size(),
            written: (meta.mtime(), meta.mtime_nsec()),
            dev: meta.dev(),
        }
    }

    /// When anything about a file was changed last, its place in folders too. Nobody can set this one
    /// (stat(2), `st_ctime`), but for the clock.
    pub(super) fn change_time(meta: &Metadata) -> Option<SystemTime> {
        let seconds = u64::try_from(meta.ctime()).unwrap_or(0);
        let nanos = u32::try_from(meta.ctime_nsec()).unwrap_or(0);
        // A file system may claim any time.
        let whole = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds))?;
        whole.checked_add(Duration::from_nanos(nanos.into()))
    }
}

/// Whether two files at the same path are one, by the build id and the stamp of each.
pub(super) fn is_same_file(
    one: (Option<&str>, Option<FileStamp>),
    other: (Option<&str>, Option<FileStamp>),
) -> bool {
    match (one, other) {
        ((Some(one), _), (Some(other), _)) => one == other,
        ((None, Some(one)), (None, Some(other))) => one == other,
        // Without a mark of both, nothing says that they are one.
        _ => false,
    }
}
