//! A directory of traces with a limit of size: a full disk costs old traces, never the host.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// What the names of traces end with; nothing else in the directory is ever touched.
pub const SUFFIX: &str = ".quell";

/// A trace that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Where.
    pub path: PathBuf,
    /// When it was begun, as in its name: `2026-11-26T02-15-18Z`, so that names sort by time.
    pub begun: String,
    /// The rule that began it.
    pub rule: String,
    /// All its files.
    pub bytes: u64,
}

/// The directory.
#[derive(Clone, Debug)]
pub struct Ring {
    dir: PathBuf,
    limit: u64,
    /// So much of the file system stays free.
    reserve: u64,
}

impl Ring {
    /// Of this directory, which is made.
    ///
    /// # Errors
    ///
    /// It can't be made, or written to.
    pub fn open(dir: &Path, limit: u64, reserve: u64) -> anyhow::Result<Self> {
        fs::create_dir_all(dir).with_context(|| format!("make {} for traces", dir.display()))?;
        let probe = dir.join(".quell-can-write");
        fs::write(&probe, "").with_context(|| format!("write to {}", dir.display()))?;
        let _ = fs::remove_file(probe);
        Ok(Self {
            dir: dir.to_owned(),
            limit,
            reserve,
        })
    }

    /// Where a trace that begins now goes. Its name is later than those of all before, also where the clock was set back: who
    /// gives way is told by names.
    #[must_use]
    pub fn place(&self, wall_ns: u64, rule: &str) -> PathBuf {
        let newest = list(&self.dir).ok().and_then(|mut kept| kept.pop());
        let newest = newest.map_or(0, |kept| seconds(&kept.begun) + 1);
        let now = stamp(newest.max(wall_ns / 1_000_000_000));
        self.dir.join(format!("{now}-{rule}{SUFFIX}"))
    }

    /// Removes the oldest traces until what is kept, and `more`, is within the limit and the file system has its reserve.
    /// How many were removed, and whether there is room now.
    ///
    /// # Errors
    ///
    /// The directory can't be read, or a trace can't be removed.
    pub fn make_room(&self, more: u64) -> anyhow::Result<(u64, bool)> {
        let mut kept = list(&self.dir)?;
        let mut sum: u64 = kept.iter().map(|k| k.bytes).sum();
        let mut removed = 0;
        kept.reverse();
        loop {
            let fits = sum.saturating_add(more) <= self.limit && self.has_reserve(more);
            if fits {
                return Ok((removed, true));
            }
            let Some(oldest) = kept.pop() else {
                return Ok((removed, false));
            };
            fs::remove_dir_all(&oldest.path)
                .with_context(|| format!("remove {}", oldest.path.display()))?;
            sum -= oldest.bytes;
            removed += 1;
        }
    }

    /// Whether the file system would have its reserve after so many bytes more. One that can't be asked has it: the limit
    /// holds all the same.
    #[must_use]
    pub fn has_reserve(&self, more: u64) -> bool {
        rustix::fs::statvfs(&self.dir).is_ok_and(|fs| {
            fs.f_bavail.saturating_mul(fs.f_frsize) >= self.reserve.saturating_add(more)
        })
    }

    /// What is kept, in all, bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        list(&self.dir).map_or(0, |kept| kept.iter().map(|k| k.bytes).sum())
    }
}

/// All traces of a directory, the oldest first.
///
/// # Errors
///
/// It can't be read.
pub fn list(dir: &Path) -> anyhow::Result<Vec<Kept>> {
    let mut kept = Vec::new();
    for entry in fs::read_dir(dir).with_context(|| format!("read {}", dir.display()))? {
        let entry = entry.with_context(|| format!("read {}", dir.display()))?;
        let Some((begun, rule)) = entry.file_name().to_str().and_then(parts) else {
            continue;
        };
        // a link is not ours, and what it points to still less
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            kept.push(Kept {
                bytes: size(&entry.path()).unwrap_or(0),
                path: entry.path(),
                begun,
                rule,
            });
        }
    }
    kept.sort_unstable_by(|a, b| (&a.begun, &a.rule).cmp(&(&b.begun, &b.rule)));
    Ok(kept)
}

/// Of a name: when, and which rule. `None`: it is none of ours.
fn parts(name: &str) -> Option<(String, String)> {
    let name = name.strip_suffix(SUFFIX)?;
    let (begun, rule) = name.split_at_checked(STAMP.len())?;
    let alike = begun.bytes().zip(STAMP.bytes()).all(|(is, form)| {
        if form == b'0' {
            is.is_ascii_digit()
        } else {
            is == form
        }
    });
    let rule = rule.strip_prefix('-')?;
    (alike && !rule.is_empty()).then(|| (begun.to_owned(), rule.to_owned()))
}

const STAMP: &str = "0000-00-00T00-00-00Z";

/// A moment in a name: UTC, without a colon, which tar and rsync take for a host.
fn stamp(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}-{:02}-{:02}Z",
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

/// Of a moment in a name, which has been looked at.
fn seconds(stamp: &str) -> u64 {
    let number = |from: usize, to: usize| {
        stamp
            .get(from..to)
            .and_then(|t| t.parse::<u64>().ok())
            .unwrap_or(0)
    };
    let wanted = (number(0, 4), number(5, 7), number(8, 10));
    // dates grow with the days: halve what is left, up to the year 9999
    let (mut low, mut high) = (0, 2_932_897);
    while low < high {
        let middle = u64::midpoint(low, high);
        if date(middle) < wanted {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low * 86_400 + number(11, 13) * 3600 + number(14, 16) * 60 + number(17, 19)
}

/// The date that is so many days after 1970-01-01: by years of 400, which all have as many days.
fn date(days: u64) -> (u64, u64, u64) {
    let leap = |y: u64| y.is_multiple_of(4) && !y.is_multiple_of(100) || y.is_multiple_of(400);
    let (mut year, mut left) = (1970 + days / 146_097 * 400, days % 146_097);
    while left >= 365 + u64::from(leap(year)) {
        left -= 365 + u64::from(leap(year));
        year += 1;
    }
    let lengths = [
        31,
        28 + u64::from(leap(year)),
        31,
        30,
        31,
        30,
        31,
        31,
        30,
        31,
        30,
        31,
    ];
    let mut month = 0;
    while left >= lengths[month] {
        left -= lengths[month];
        month += 1;
    }
    (year, month as u64 + 1, left + 1)
}

/// The bytes of all files of a trace, which has no directories.
///
/// # Errors
///
/// It can't be read: it may be going away.
pub fn size(dir: &Path) -> io::Result<u64> {
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

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(dir)
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
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
        let ring = Ring::open(dir, 650, 0).unwrap();
        assert_eq!(ring.make_room(50).unwrap(), (0, true));
        assert_eq!(ring.bytes(), 600);
        assert_eq!(ring.make_room(150).unwrap(), (1, true));
        let kept = list(dir).unwrap();
        assert_eq!(
            (kept.len(), kept[0].rule.as_str(), kept[0].bytes),
            (2, "b-c", 200)
        );
        assert_eq!(ring.make_room(651).unwrap(), (2, false));
        assert_eq!(names(dir), ["2026-11-24T00-00-00Z-a.quell", "mine.quell"]);
        // a clock that was set back does not make the newest the oldest
        let first = ring.place(1_795_659_318_000_000_000, "a");
        fs::create_dir(&first).unwrap();
        let second = ring.place(5_000_000_000, "a");
        assert_eq!(second.file_name().unwrap(), "2026-11-26T02-15-19Z-a.quell");
        fs::remove_dir(&first).unwrap();
        // a file system that is never free enough
        let full = Ring::open(dir, u64::MAX, u64::MAX).unwrap();
        assert!(!full.has_reserve(0));
        assert_eq!(full.make_room(0).unwrap(), (0, false));
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
            assert_eq!(stamp(seconds), text);
            assert_eq!(super::seconds(text), seconds);
            assert_eq!(
                parts(&format!("{text}-a-b.quell")),
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
            assert_eq!(parts(other), None, "{other}");
        }
    }
}
