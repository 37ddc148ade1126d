//! A folder for the trace of the observed run, gone when it is dropped. That of a quell that was killed is swept by the
//! next one that makes such a folder.
//!
//! Each quell holds a lock on its folder, which goes when its process does, however that ends (flock(2)). Swept is what
//! has such a name, is this user's, holds nothing but what quell puts there, and can be locked.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context as _, bail};
use rustix::fs::{AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, Stat};
use rustix::fs::{flock, fstat, open, openat, statat, unlinkat};
use rustix::io::Errno;

/// What quell puts there. A folder with anything else in it is somebody's, whatever its name.
pub(crate) const OBSERVED: &str = "observed.quell";
pub(crate) const WATCHED: &str = "watched.quell";
pub(crate) const RUN: &str = "run.quell";
pub(crate) const FLEET: &str = "fleet";
const PARTS: [&str; 4] = [OBSERVED, WATCHED, RUN, FLEET];

/// Nobody but its user may look into it.
const MODE: u32 = 0o700;

/// A folder itself, and not what a link leads to.
const FOLDER: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// How often one is made anew, because another quell swept it before it was locked.
const TRIES: u32 = 100;

/// A folder of our own.
pub(crate) struct TempDir {
    path: PathBuf,
    /// Tells others that it is in use.
    _lock: OwnedFd,
}

impl TempDir {
    /// Makes one where TMPDIR says, that no one else may look into, and sweeps there.
    pub(crate) fn new() -> anyhow::Result<Self> {
        let temp = std::env::temp_dir();
        sweep(&temp);
        for _ in 0..TRIES {
            let path = temp.join(new_name());
            // Fails if it is there: nobody can have laid a trap.
            std::fs::DirBuilder::new().mode(MODE).create(&path).with_context(|| {
                format!("making the folder {} for the trace; set TMPDIR to a place that can be written to", path.display())
            })?;
            let locked = lock(&path);
            if let Some(lock) = locked.with_context(|| format!("opening {}", path.display()))? {
                return Ok(Self { path, _lock: lock });
            }
        }
        bail!(
            "making a folder for the trace in {}: somebody removes each at once; set TMPDIR to another place",
            temp.display()
        )
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        // What can't be removed now can't be helped.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

fn new_name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
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

/// Locks a folder that was made just now. None if it was swept meanwhile, or is about to be.
fn lock(path: &Path) -> rustix::io::Result<Option<OwnedFd>> {
    let folder = match open(path, FOLDER, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(None),
        folder => folder?,
    };
    // A file system that knows no locks has none that are swept.
    if flock(&folder, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
        return Ok(None);
    }
    let is_there = rustix::fs::lstat(path).is_ok_and(|now| same(&now, fstat(&folder).ok()));
    Ok(is_there.then_some(folder))
}

fn same(one: &Stat, other: Option<Stat>) -> bool {
    other.is_some_and(|o| (o.st_dev, o.st_ino) == (one.st_dev, one.st_ino))
}

/// Removes what quells that were killed have left.
fn sweep(temp: &Path) {
    let flags = FOLDER.difference(OFlags::NOFOLLOW);
    let Ok(temp) = open(temp, flags, Mode::empty()) else {
        return;
    };
    for name in names(&temp).unwrap_or_default() {
        if is_name(name.as_bytes()) {
            // What can't be swept stays.
            let _ = sweep_one(temp.as_fd(), &name);
        }
    }
}

fn sweep_one(temp: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<()> {
    let folder = openat(temp, name, FOLDER, Mode::empty())?;
    let stat = fstat(&folder)?;
    let own = rustix::process::geteuid().as_raw();
    if stat.st_uid != own || stat.st_mode & 0o777 != MODE || stat.st_dev != fstat(temp)?.st_dev {
        return Ok(());
    }
    flock(&folder, FlockOperation::NonBlockingLockExclusive)?;
    let inside = names(&folder)?;
    let is_ours = |name: &CString| PARTS.iter().any(|part| part.as_bytes() == name.as_bytes());
    if !inside.iter().all(is_ours) {
        return Ok(());
    }
    empty(&folder, &stat)?;
    // Nothing but an empty folder goes by this, and that only if it is the one that was locked.
    if same(&statat(temp, name, AtFlags::SYMLINK_NOFOLLOW)?, Some(stat)) {
        unlinkat(temp, name, AtFlags::REMOVEDIR)?;
    }
    Ok(())
}

/// Removes all that is in a folder, by descriptors: no link is followed, and no other file system entered.
fn empty(folder: &OwnedFd, top: &Stat) -> rustix::io::Result<()> {
    for name in names(folder)? {
        let stat = statat(folder, &name, AtFlags::SYMLINK_NOFOLLOW)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            unlinkat(folder, &name, AtFlags::empty())?;
            continue;
        }
        let inner = openat(folder, &name, FOLDER, Mode::empty())?;
        let stat = fstat(&inner)?;
        if (stat.st_dev, stat.st_uid) != (top.st_dev, top.st_uid) {
            return Err(Errno::PERM);
        }
        empty(&inner, top)?;
        unlinkat(folder, &name, AtFlags::REMOVEDIR)?;
    }
    Ok(())
}

fn names(folder: &OwnedFd) -> rustix::io::Result<Vec<CString>> {
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

    /// Check that one that is in use is locked, that it is gone when it is dropped, and that one without its quell is swept.
    #[test]
    fn sweeps() {
        let dir = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let path = dir.path().join(name);
            std::fs::DirBuilder::new().mode(MODE).create(&path).unwrap();
            std::fs::create_dir_all(path.join(OBSERVED).join("deep")).unwrap();
            std::fs::write(path.join(OBSERVED).join("deep/file"), "").unwrap();
            std::os::unix::fs::symlink("/", path.join(OBSERVED).join("link")).unwrap();
            path
        };
        let (used, left) = (make("quell-1-0-a"), make("quell-1-0-b"));
        let held = lock(&used).unwrap().unwrap();
        assert!(lock(&used).unwrap().is_none());
        sweep(dir.path());
        assert!(used.join(OBSERVED).join("deep/file").exists() && !left.exists());
        drop(held);
        sweep(dir.path());
        assert!(!used.exists() && Path::new("/tmp").exists());
        assert!(lock(&used).unwrap().is_none());
    }
}
