//! A temporary folder for the trace of the observed run, removed when it is dropped. The folder of a quell that was killed
//! is removed by the next quell that makes such a folder.
//!
//! Each quell holds a lock on its folder, which the kernel releases when the process ends, in whatever way (flock(2)). A
//! folder is removed only if it has such a name, belongs to this user, holds only files that quell puts there, and can be
//! locked.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context as _, bail};
use rustix::fs::{AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, Stat};
use rustix::fs::{flock, fstat, open, openat, statat, unlinkat};
use rustix::io::Errno;

/// The names that quell puts there. A folder with anything else in it belongs to somebody, whatever its name.
pub(crate) const OBSERVED_TRACE: &str = "observed.quell";
pub(crate) const WATCHED_TRACE: &str = "watched.quell";
pub(crate) const RUN_TRACE: &str = "run.quell";
pub(crate) const FLEET_FOLDER: &str = "fleet";
const KNOWN_PARTS: [&str; 4] = [OBSERVED_TRACE, WATCHED_TRACE, RUN_TRACE, FLEET_FOLDER];

/// Only its user may look into it.
const FOLDER_MODE: u32 = 0o700;

/// Opens a folder itself, and never the target of a link.
const FOLDER_FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// The most attempts to make a folder, in case another quell removes it before it is locked.
const MAX_TRIES: u32 = 100;

/// A temporary folder of this process.
pub(crate) struct TempDir {
    path: PathBuf,
    /// The lock that shows others that it is in use.
    _lock: OwnedFd,
}

impl TempDir {
    /// Makes a folder under TMPDIR that no other user may look into, after removing those of killed quells.
    pub(crate) fn new() -> anyhow::Result<Self> {
        let temp = std::env::temp_dir();
        sweep_leftovers(&temp);
        for _ in 0..MAX_TRIES {
            let path = temp.join(new_name());
            // This fails if the name exists, so nobody can have prepared it.
            std::fs::DirBuilder::new().mode(FOLDER_MODE).create(&path).with_context(|| {
                format!("making the folder {} for the trace; set TMPDIR to a place that can be written to", path.display())
            })?;
            let locked = lock_folder(&path);
            if let Some(lock) = locked.with_context(|| format!("opening {}", path.display()))? {
                return Ok(Self { path, _lock: lock });
            }
        }
        bail!(
            "making a folder for the trace in {}: another process removes each at once; set TMPDIR to another place",
            temp.display()
        )
    }

    /// The path of the folder.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        // Nothing can be done about files that can't be removed now.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

fn new_name() -> String {
    static NEXT_NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed);
    let nanos = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let nanos = nanos.map_or(0, |d| d.subsec_nanos());
    format!("quell-{}-{number}-{nanos:x}", std::process::id())
}

/// Whether it is a name of [`new_name`].
fn is_name(name: &[u8]) -> bool {
    let Some(rest) = name.strip_prefix(b"quell-") else {
        return false;
    };
    let parts: Vec<_> = rest.split(|b| *b == b'-').collect();
    let [pid, number, nanos] = parts[..] else {
        return false;
    };
    let all = |part: &[u8], is: fn(&u8) -> bool| !part.is_empty() && part.iter().all(is);
    let is_hex = |b: &u8| matches!(b, b'0'..=b'9' | b'a'..=b'f');
    all(pid, u8::is_ascii_digit) && all(number, u8::is_ascii_digit) && all(nanos, is_hex)
}

/// Locks a folder that was made just now. None if another quell has removed it meanwhile, or is about to.
fn lock_folder(path: &Path) -> rustix::io::Result<Option<OwnedFd>> {
    let folder = match open(path, FOLDER_FLAGS, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(None),
        folder => folder?,
    };
    // On a file system without locks no folder is ever removed by others.
    if flock(&folder, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
        return Ok(None);
    }
    let is_there = rustix::fs::lstat(path).is_ok_and(|now| is_same_file(&now, fstat(&folder).ok()));
    Ok(is_there.then_some(folder))
}

fn is_same_file(one: &Stat, other: Option<Stat>) -> bool {
    other.is_some_and(|o| (o.st_dev, o.st_ino) == (one.st_dev, one.st_ino))
}

/// Removes the folders that killed quells have left.
fn sweep_leftovers(temp: &Path) {
    let flags = FOLDER_FLAGS.difference(OFlags::NOFOLLOW);
    let Ok(temp) = open(temp, flags, Mode::empty()) else {
        return;
    };
    for name in names_in(&temp).unwrap_or_default() {
        if is_name(name.as_bytes()) {
            // A folder that can't be removed stays.
            let _ = sweep_one(temp.as_fd(), &name);
        }
    }
}

/// Removes one folder of a killed quell, after checking by its descriptor that it is one and that nobody uses it.
fn sweep_one(temp: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<()> {
    let folder = openat(temp, name, FOLDER_FLAGS, Mode::empty())?;
    let stat = fstat(&folder)?;
    let own = rustix::process::geteuid().as_raw();
    if stat.st_uid != own
        || stat.st_mode & 0o777 != FOLDER_MODE
        || stat.st_dev != fstat(temp)?.st_dev
    {
        return Ok(());
    }
    flock(&folder, FlockOperation::NonBlockingLockExclusive)?;
    let inside = names_in(&folder)?;
    let is_ours = |name: &CString| {
        KNOWN_PARTS
            .iter()
            .any(|part| part.as_bytes() == name.as_bytes())
    };
    if !inside.iter().all(is_ours) {
        return Ok(());
    }
    empty_folder(&folder, &stat)?;
    // Only an empty folder is removed, and only if it is the one that was locked.
    if is_same_file(&statat(temp, name, AtFlags::SYMLINK_NOFOLLOW)?, Some(stat)) {
        unlinkat(temp, name, AtFlags::REMOVEDIR)?;
    }
    Ok(())
}

/// Removes the content of a folder by descriptors, so that no link is followed and no other file system entered.
fn empty_folder(folder: &OwnedFd, top: &Stat) -> rustix::io::Result<()> {
    for name in names_in(folder)? {
        let stat = statat(folder, &name, AtFlags::SYMLINK_NOFOLLOW)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            unlinkat(folder, &name, AtFlags::empty())?;
            continue;
        }
        let inner = openat(folder, &name, FOLDER_FLAGS, Mode::empty())?;
        let stat = fstat(&inner)?;
        if (stat.st_dev, stat.st_uid) != (top.st_dev, top.st_uid) {
            return Err(Errno::PERM);
        }
        empty_folder(&inner, top)?;
        unlinkat(folder, &name, AtFlags::REMOVEDIR)?;
    }
    Ok(())
}

fn names_in(folder: &OwnedFd) -> rustix::io::Result<Vec<CString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let name = entry?.file_name().to_owned();
        if !matches!(name.as_bytes(), b"." | b"..") {
            names.push(name);
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that names that quell gives are known, and no others.
    #[test]
    fn names_of_folders() {
        assert!(is_name(new_name().as_bytes()));
        assert!(is_name(b"quell-1-0-0"));
        for other in [
            "quell",
            "quell-1-0",
            "quell-1-0-",
            "quell--0-0",
            "quell-1-0-0-0",
            "quell-1-0-G",
            "quell-1-0-F",
            "quell-a-0-0",
            "quell-1-0-0.old",
            "xquell-1-0-0",
            "quell-1-+1-0",
        ] {
            assert!(!is_name(other.as_bytes()), "{other}");
        }
    }

    /// Check that a folder in use is locked, that it is removed when it is dropped, and that one of a killed quell is removed.
    #[test]
    fn sweeps() {
        let dir = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let path = dir.path().join(name);
            std::fs::DirBuilder::new()
                .mode(FOLDER_MODE)
                .create(&path)
                .unwrap();
            std::fs::create_dir_all(path.join(OBSERVED_TRACE).join("deep")).unwrap();
            std::fs::write(path.join(OBSERVED_TRACE).join("deep/file"), "").unwrap();
            std::os::unix::fs::symlink("/", path.join(OBSERVED_TRACE).join("link")).unwrap();
            path
        };
        let (used, left) = (make("quell-1-0-a"), make("quell-1-0-b"));
        let held = lock_folder(&used).unwrap().unwrap();
        assert!(lock_folder(&used).unwrap().is_none());
        sweep_leftovers(dir.path());
        assert!(used.join(OBSERVED_TRACE).join("deep/file").exists() && !left.exists());
        drop(held);
        sweep_leftovers(dir.path());
        assert!(!used.exists() && Path::new("/tmp").exists());
        assert!(lock_folder(&used).unwrap().is_none());
    }
}
