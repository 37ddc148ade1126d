//! The files of a trace, by name.

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::parquet_schema::Column;
use super::{Error, parquet_batch, sample, wait};

pub(super) const META: &str = "meta.json";
pub(super) const TALLY: &str = "tally.json";
pub(super) const PROCESSES: &str = "processes.jsonl";
pub(super) const STACKS: &str = "stacks.jsonl";
pub(super) const ACCOUNT: &str = "account.jsonl";

/// A table of rows, which is kept in segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    Events,
    Waits,
    Samples,
}

impl Family {
    const ALL: [Self; 3] = [Self::Events, Self::Waits, Self::Samples];

    /// What the names of its sealed segments begin with, and of those that are not sealed yet.
    fn prefixes(self) -> (&'static str, &'static str) {
        match self {
            Self::Events => ("events-", "tail-"),
            Self::Waits => ("waits-", "waits-tail-"),
            Self::Samples => ("samples-", "samples-tail-"),
        }
    }

    /// What its rows have.
    pub(super) fn columns(self) -> &'static [Column] {
        match self {
            Self::Events => parquet_batch::COLUMNS,
            Self::Waits => wait::COLUMNS,
            Self::Samples => sample::COLUMNS,
        }
    }

    /// A sealed segment.
    pub(super) fn sealed(self, dir: &Path, number: u32) -> PathBuf {
        dir.join(format!("{}{number:05}.parquet", self.prefixes().0))
    }

    /// A segment that is not sealed yet.
    pub(super) fn tail(self, dir: &Path, number: u32) -> PathBuf {
        dir.join(format!("{}{number:05}.arrows", self.prefixes().1))
    }

    /// The number of a sealed segment.
    pub(super) fn sealed_number(self, name: &str) -> Option<u32> {
        let name = name.strip_prefix(self.prefixes().0)?;
        number(name.strip_suffix(".parquet")?)
    }

    /// The number of a tail.
    pub(super) fn tail_number(self, name: &str) -> Option<u32> {
        let name = name.strip_prefix(self.prefixes().1)?;
        number(name.strip_suffix(".arrows")?)
    }
}

/// The name under which a file is written before it gets its own.
pub(super) fn aside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".tmp");
    name.into()
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.prefixes().0.trim_end_matches('-'))
    }
}

/// Exactly as written: `events-1.parquet` is somebody else's.
fn number(digits: &str) -> Option<u32> {
    let n = digits
        .parse()
        .ok()
        .filter(|n| format!("{n:05}") == digits)?;
    (n > 0).then_some(n)
}

/// Is this a file that a recording leaves, so that replacing a trace may remove it?
pub(super) fn is_ours(name: &str) -> bool {
    let name = name.strip_suffix(".tmp").unwrap_or(name);
    [META, TALLY, PROCESSES, STACKS, ACCOUNT].contains(&name)
        || Family::ALL
            .iter()
            .any(|f| f.sealed_number(name).is_some() || f.tail_number(name).is_some())
}

/// Replaces a whole file, so that a reader finds the old one or the new one.
pub(super) fn replace(dir: &Path, name: &str, bytes: &[u8]) -> Result<(), Error> {
    let path = dir.join(name);
    let tmp = aside(&path);
    let write = || -> io::Result<()> {
        File::create(&tmp)?.write_all(bytes)?;
        std::fs::rename(&tmp, &path)
    };
    write().map_err(|err| {
        // on a full disk it would take room that others need
        let _ = std::fs::remove_file(&tmp);
        Error::write(dir, &path, err)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that only names exactly as written have a number, and that other files are not ours.
    #[test]
    fn names_are_exact() {
        assert_eq!(
            Family::Events.sealed_number("events-00012.parquet"),
            Some(12)
        );
        assert_eq!(
            Family::Events.sealed_number("events-123456.parquet"),
            Some(123_456)
        );
        for foreign in [
            "events-12.parquet",
            "events-00000.parquet",
            "events-+0012.parquet",
        ] {
            assert_eq!(Family::Events.sealed_number(foreign), None, "{foreign}");
        }
        assert_eq!(Family::Events.tail_number("tail-00001.arrows"), Some(1));
        assert!(is_ours("events-00001.parquet.tmp") && is_ours("meta.json.tmp"));
        assert_eq!(Family::Waits.sealed_number("waits-00003.parquet"), Some(3));
        assert_eq!(Family::Waits.sealed_number("events-00003.parquet"), None);
        assert_eq!(Family::Events.tail_number("waits-tail-00003.arrows"), None);
        assert!(is_ours("waits-00001.parquet") && is_ours("samples-tail-00001.arrows"));
        assert!(!is_ours("notes.txt") && !is_ours(".tmp"));
    }
}
