//! A folder of traces with a limit of size: a full disk costs old traces, never the host.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use chrono::{DateTime, NaiveDateTime};
use rustix::fs::Access;

/// Names of traces end with this; nothing else in the folder is ever touched.
pub const TRACE_SUFFIX: &str = ".quell";

/// A trace in the ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptTrace {
    /// Its folder.
    pub path: PathBuf,
    /// Its start, as in its name: `2026-11-26T02-15-18Z`, so that names sort by time.
    pub begun: String,
    /// The rule that began it.
    pub rule: String,
    /// Size of all its files.
    pub bytes: u64,
}

/// Outcome of making room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoomMade {
    /// Number of traces that were removed.
    pub removed: u64,
    /// Size of the traces that are left, bytes.
    pub kept: u64,
    /// Whether there is room now.
    pub fits: bool,
}

/// The folder, and its limits.
#[derive(Clone, Debug)]
pub struct TraceRing {
    dir: PathBuf,
    limit_bytes: u64,
    /// Space of the file system that stays free, bytes.
    reserve_bytes: u64,
    /// An open lock: while it is held no other agent keeps its traces there.
    _lock: Arc<File>,
}

impl TraceRing {
    /// Opens the folder, makes it where it is missing, and locks it until the ring and all its clones are gone. `limit` and
    /// `reserve` are bytes.
    ///
    /// # Errors
    ///
    /// It can't be made, written to or locked, or another agent keeps its traces there.
    pub fn open(dir: &Path, limit: u64, reserve: u64) -> anyhow::Result<Self> {
        make_private_dir(dir)?;
        let probe = dir.join(".quell-can-write");
        fs::write(&probe, "").with_context(|| format!("write to {}", dir.display()))?;
        let _ = fs::remove_file(probe);
        // flock(2) takes a folder too.
        let lock = File::open(dir).with_context(|| format!("open {}", dir.display()))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                bail!("another agent keeps its traces in {}", dir.display())
            }
            Err(TryLockError::Error(err)) => {
                return Err(err).with_context(|| format!("lock {}", dir.display()));
            }
        }
        Ok(Self {
            dir: dir.to_owned(),
            limit_bytes: limit,
            reserve_bytes: reserve,
            _lock: Arc::new(lock),
        })
    }

    /// Whether another agent has the folder now. Nothing is made: the part of the path that exists has to be a folder that can be
    /// written to.
    ///
    /// # Errors
    ///
    /// The ring could not be opened, with or without another agent.
    pub fn is_taken(dir: &Path) -> anyhow::Result<bool> {
        let there = existing_ancestor(dir);
        let doing = || format!("{} for traces: write to {}", dir.display(), there.display());
        let kind = fs::metadata(there).with_context(doing)?;
        if !kind.is_dir() {
            bail!(
                "{} for traces: {} is no folder",
                dir.display(),
                there.display()
            );
        }
        let mut rights = Access::WRITE_OK | Access::EXEC_OK;
        if there == dir {
            rights |= Access::READ_OK;
        }
        rustix::fs::access(there, rights).with_context(doing)?;
        Ok(there == dir && is_locked(dir))
    }

    /// The path of a trace that begins at `wall_ns`, ns since 1970. Its name sorts after all others, also where the clock was set
    /// back, since names decide which trace is the oldest: it is a second after the newest one's at least.
    #[must_use]
    pub fn next_trace_path(&self, wall_ns: u64, rule: &str) -> PathBuf {
        let newest = list_traces(&self.dir).ok().and_then(|mut kept| kept.pop());
        let newest = newest.map_or(0, |kept| timestamp_seconds(&kept.begun) + 1);
        let now = format_timestamp(newest.max(wall_ns / 1_000_000_000));
        self.dir.join(format!("{now}-{rule}{TRACE_SUFFIX}"))
    }

    /// Removes the oldest traces until those that are left, and `more` bytes, are within the limit and the file system has its
    /// reserve. Where that can't be reached all traces are gone in the end, and [`RoomMade::fits`] is false. A trace that is
    /// being recorded is the newest and goes last, but is not spared.
    ///
    /// # Errors
    ///
    /// The folder can't be read, or a trace can't be removed.
    pub fn make_room(&self, more: u64) -> anyhow::Result<RoomMade> {
        // The folder may have been removed meanwhile.
        make_private_dir(&self.dir)?;
        let mut kept = list_traces(&self.dir)?;
        let mut sum: u64 = kept.iter().map(|k| k.bytes).sum();
        let mut removed = 0;
        kept.reverse();
        loop {
            let fits = sum.saturating_add(more) <= self.limit_bytes && self.has_reserve(more);
            let oldest = kept.pop().filter(|_| !fits);
            let Some(oldest) = oldest else {
                return Ok(RoomMade {
                    removed,
                    kept: sum,
                    fits,
                });
            };
            fs::remove_dir_all(&oldest.path)
                .with_context(|| format!("remove {}", oldest.path.display()))?;
            sum -= oldest.bytes;
            removed += 1;
        }
    }

    /// Whether the file system would have its reserve after so many bytes more. One that can't be asked counts as full.
    #[must_use]
    pub fn has_reserve(&self, more: u64) -> bool {
        has_free_bytes(&self.dir, self.reserve_bytes.saturating_add(more))
    }

    /// Whether there would be room for `more` bytes beside the reserve if no trace were kept, in a folder that may not exist yet.
    #[must_use]
    pub fn could_hold(dir: &Path, reserve: u64, more: u64) -> bool {
        has_free_bytes(
            existing_ancestor(dir),
            reserve.saturating_add(more.saturating_sub(kept_bytes(dir))),
        )
    }

    /// Space of the file system that stays free, bytes.
    #[must_use]
    pub fn reserve_bytes(&self) -> u64 {
        self.reserve_bytes
    }

    /// Size of all traces, bytes; 0 where the folder can't be read.
    #[must_use]
    pub fn kept_bytes(&self) -> u64 {
        kept_bytes(&self.dir)
    }
}

fn kept_bytes(dir: &Path) -> u64 {
    list_traces(dir).map_or(0, |kept| kept.iter().map(|k| k.bytes).sum())
}

/// Whether its file system has so many bytes free.
fn has_free_bytes(dir: &Path, bytes: u64) -> bool {
    rustix::fs::statvfs(dir).is_ok_and(|fs| fs.f_bavail.saturating_mul(fs.f_frsize) >= bytes)
}

/// The longest part of the path that exists.
fn existing_ancestor(dir: &Path) -> &Path {
    let is_there = |path: &&Path| path.as_os_str().is_empty() || path.symlink_metadata().is_ok();
    let there = dir.ancestors().find(is_there).unwrap_or(dir);
    if there.as_os_str().is_empty() {
        return Path::new(".");
    }
    there
}

/// Whether a recording writes to this trace now. A recording locks its folder, and the lock ends with it in any case. Some
/// network file systems have no locks: there no recording is recognised.
#[must_use]
pub fn is_being_recorded(trace: &Path) -> bool {
    // A recording locks first and writes this file then; a shared lock before that would keep it from its own.
    trace.join("meta.json").exists() && is_locked(trace)
}

/// Whether another process holds its flock(2) alone.
fn is_locked(dir: &Path) -> bool {
    let lock = File::open(dir).map(|dir| dir.try_lock_shared());
    matches!(lock, Ok(Err(TryLockError::WouldBlock)))
}

/// Makes the folder for its owner alone, since traces contain command lines; an existing folder keeps its mode.
fn make_private_dir(dir: &Path) -> anyhow::Result<()> {
    let made = fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir);
    made.with_context(|| format!("make {} for traces", dir.display()))
}

/// All traces of a folder, the oldest first.
///
/// # Errors
///
/// The folder can't be read.
pub fn list_traces(dir: &Path) -> anyhow::Result<Vec<KeptTrace>> {
    let mut kept = Vec::new();
    for entry in fs::read_dir(dir).with_context(|| format!("read {}", dir.display()))? {
        let entry = entry.with_context(|| format!("read {}", dir.display()))?;
        let Some((begun, rule)) = entry.file_name().to_str().and_then(parse_trace_name) else {
            continue;
        };
        // A symbolic link is not the ring's, and its target even less.
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            kept.push(KeptTrace {
                bytes: trace_bytes(&entry.path()).unwrap_or(0),
                path: entry.path(),
                begun,
                rule,
            });
        }
    }
    kept.sort_unstable_by(|a, b| (&a.begun, &a.rule).cmp(&(&b.begun, &b.rule)));
    Ok(kept)
}

/// The start and the rule from a trace's name; `None` for any other name.
fn parse_trace_name(name: &str) -> Option<(String, String)> {
    let name = name.strip_suffix(TRACE_SUFFIX)?;
    let (begun, rule) = name.split_at_checked(TIMESTAMP_SHAPE.len())?;
    let alike = begun
        .bytes()
        .zip(TIMESTAMP_SHAPE.bytes())
        .all(|(is, form)| {
            if form == b'0' {
                is.is_ascii_digit()
            } else {
                is == form
            }
        });
    let rule = rule.strip_prefix('-')?;
    (alike && !rule.is_empty()).then(|| (begun.to_owned(), rule.to_owned()))
}

const TIMESTAMP_SHAPE: &str = "0000-00-00T00-00-00Z";

/// Format of the start in a name: UTC, without a colon, which tar and rsync take for a host.
const TIMESTAMP_FORMAT: &str = "%Y-%m-%dT%H-%M-%SZ";

/// The start in a name, from seconds since 1970.
fn format_timestamp(seconds: u64) -> String {
    let moment = i64::try_from(seconds)
        .ok()
        .and_then(|s| DateTime::from_timestamp(s, 0));
    moment
        .unwrap_or_default()
        .format(TIMESTAMP_FORMAT)
        .to_string()
}

/// Seconds since 1970 of the start in a name; 0 for a date that does not exist.
fn timestamp_seconds(stamp: &str) -> u64 {
    let moment = NaiveDateTime::parse_from_str(stamp, TIMESTAMP_FORMAT).unwrap_or_default();
    u64::try_from(moment.and_utc().timestamp()).unwrap_or(0)
}

/// The bytes of all files of a trace, which has no folders inside.
///
/// # Errors
///
/// The folder can't be read: it may be going away.
pub fn trace_bytes(dir: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(dir)? {
        bytes += entry?.metadata().map_or(0, |m| m.len());
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(dir: &Path, name: &str, bytes: usize) {
        fs::create_dir(dir.join(name)).unwrap();
        fs::write(dir.join(name).join("events-00001.parquet"), vec![0; bytes]).unwrap();
    }

    fn room(ring: &TraceRing, more: u64) -> (u64, bool) {
        let room = ring.make_room(more).unwrap();
        assert_eq!(room.kept, ring.kept_bytes());
        (room.removed, room.fits)
    }

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(dir)
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// Check that one directory has one ring, that another may begin once it is gone, and that one that was removed is made
    /// again.
    #[test]
    fn one_ring_a_directory() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("a/b");
        let ring = TraceRing::open(&dir, 1000, 0).unwrap();
        let second = format!("{:#}", TraceRing::open(&dir, 1000, 0).unwrap_err());
        assert!(second.contains("another agent"), "{second}");
        fs::remove_dir(&dir).unwrap();
        assert_eq!(room(&ring, 1), (0, true));
        assert!(dir.is_dir());
        drop(ring);
        assert!(TraceRing::open(&dir, 1000, 0).is_ok());
    }

    /// Check that the oldest traces go first, only as many as must, and that nothing that is not a trace of the ring is
    /// touched.
    #[test]
    fn the_oldest_give_way() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        for (name, bytes) in [
            ("2026-11-25T00-00-00Z-a.quell", 100),
            ("2026-11-26T00-00-00Z-b-c.quell", 200),
            ("2026-11-26T00-00-01Z-a.quell", 300),
            ("mine.quell", 1000),
        ] {
            trace(dir, name, bytes);
        }
        fs::write(dir.join("2026-11-24T00-00-00Z-a.quell"), "a file").unwrap();
        let ring = TraceRing::open(dir, 650, 0).unwrap();
        assert_eq!(room(&ring, 50), (0, true));
        assert_eq!(ring.kept_bytes(), 600);
        assert_eq!(room(&ring, 150), (1, true));
        let kept = list_traces(dir).unwrap();
        assert_eq!(
            (kept.len(), kept[0].rule.as_str(), kept[0].bytes),
            (2, "b-c", 200)
        );
        assert_eq!(room(&ring, 651), (2, false));
        assert_eq!(names(dir), ["2026-11-24T00-00-00Z-a.quell", "mine.quell"]);
        // a clock that was set back does not make the newest the oldest
        let first = ring.next_trace_path(1_795_659_318_000_000_000, "a");
        fs::create_dir(&first).unwrap();
        let second = ring.next_trace_path(5_000_000_000, "a");
        assert_eq!(second.file_name().unwrap(), "2026-11-26T02-15-19Z-a.quell");
        fs::remove_dir(&first).unwrap();
        // a file system that is never free enough
        drop(ring);
        let full = TraceRing::open(dir, u64::MAX, u64::MAX).unwrap();
        assert!(!full.has_reserve(0));
        assert_eq!(room(&full, 0), (0, false));
    }

    /// Check that names tell the moment, as `date -u` has it, and that they are read back.
    #[test]
    fn names_tell_when() {
        for (seconds, text) in [
            (0, "1970-01-01T00-00-00Z"),
            (951_782_400, "2000-02-29T00-00-00Z"),
            (1_709_251_199, "2024-02-29T23-59-59Z"),
            (1_795_659_318, "2026-11-26T02-15-18Z"),
            (4_107_542_400, "2100-03-01T00-00-00Z"),
        ] {
            assert_eq!(format_timestamp(seconds), text);
            assert_eq!(timestamp_seconds(text), seconds);
            assert_eq!(
                parse_trace_name(&format!("{text}-a-b.quell")),
                Some((text.to_owned(), "a-b".to_owned()))
            );
        }
        for other in [
            "",
            "a.quell",
            "2026-11-26T02-15-18Z.quell",
            "2026-11-26T02-15-18Z-.quell",
            "2026-11-26T02:15:18Z-a.quell",
            "äääääääääääää-a.quell",
        ] {
            assert_eq!(parse_trace_name(other), None, "{other}");
        }
    }
}
