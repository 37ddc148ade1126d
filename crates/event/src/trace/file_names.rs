//! The files of a trace, by name.

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::TraceError;

pub(super) const META_FILE: &str = "meta.json";
pub(super) const TALLY_FILE: &str = "tally.json";
pub(super) const PROCESSES_FILE: &str = "processes.jsonl";
pub(super) const STACKS_FILE: &str = "stacks.jsonl";
pub(super) const ACCOUNT_FILE: &str = "account.jsonl";

/// A table of rows, which is kept in segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TableFamily {
    Events,
    Waits,
    Samples,
}

impl TableFamily {
    const ALL: [Self; 3] = [Self::Events, Self::Waits, Self::Samples];

    /// Returns the beginnings of the names of its sealed segments, and of those that are not sealed yet.
    fn file_prefixes(self) -> (&'static str, &'static str) {
        match self {
            Self::Events => ("events-", "tail-"),
            Self::Waits => ("waits-", "waits-tail-"),
            Self::Samples => ("samples-", "samples-tail-"),
        }
    }

    /// Returns the path of a sealed segment.
    pub(super) fn sealed_path(self, dir: &Path, number: u32) -> PathBuf {
        dir.join(format!("{}{number:05}.parquet", self.file_prefixes().0))
    }

    /// Returns the path of a segment that is not sealed yet.
    pub(super) fn tail_path(self, dir: &Path, number: u32) -> PathBuf {
        dir.join(format!("{}{number:05}.arrows", self.file_prefixes().1))
    }

    /// The number of a sealed segment.
    pub(super) fn sealed_number(self, name: &str) -> Option<u32> {
        let name = name.strip_prefix(self.file_prefixes().0)?;
        parse_number(name.strip_suffix(".parquet")?)
    }

    /// The number of a tail.
    pub(super) fn tail_number(self, name: &str) -> Option<u32> {
        let name = name.strip_prefix(self.file_prefixes().1)?;
        parse_number(name.strip_suffix(".arrows")?)
    }
}

/// Returns the path under which a file is written before it gets its own.
pub(super) fn temporary_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".tmp");
    name.into()
}

impl fmt::Display for TableFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.file_prefixes().0.trim_end_matches('-'))
    }
}

/// Only digits exactly as quell writes them are a number: `events-1.parquet` is somebody else's.
fn parse_number(digits: &str) -> Option<u32> {
    let n = digits
        .parse()
        .ok()
        .filter(|n| format!("{n:05}") == digits)?;
    (n > 0).then_some(n)
}

/// Says whether a recording leaves a file of this name, so that replacing a trace may remove it.
pub(super) fn is_trace_file(name: &str) -> bool {
    let name = name.strip_suffix(".tmp").unwrap_or(name);
    [
        META_FILE,
        TALLY_FILE,
        PROCESSES_FILE,
        STACKS_FILE,
        ACCOUNT_FILE,
    ]
    .contains(&name)
        || TableFamily::ALL
            .iter()
            .any(|f| f.sealed_number(name).is_some() || f.tail_number(name).is_some())
}

/// Replaces a whole file, so that a reader finds the old one or the new one.
pub(super) fn replace_file(dir: &Path, name: &str, bytes: &[u8]) -> Result<(), TraceError> {
    let path = dir.join(name);
    let tmp = temporary_path(&path);
    let write = || -> io::Result<()> {
        File::create(&tmp)?.write_all(bytes)?;
        std::fs::rename(&tmp, &path)
    };
    write().map_err(|err| {
        // on a full disk it would take room that others need
        let _ = std::fs::remove_file(&tmp);
        TraceError::from_write(dir, &path, err)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that only names exactly as written have a number, and that other files are not ours.
    #[test]
    fn names_are_exact() {
        assert_eq!(
            TableFamily::Events.sealed_number("events-00012.parquet"),
            Some(12)
        );
        assert_eq!(
            TableFamily::Events.sealed_number("events-123456.parquet"),
            Some(123_456)
        );
        for foreign in [
            "events-12.parquet",
            "events-00000.parquet",
            "events-+0012.parquet",
        ] {
            assert_eq!(
                TableFamily::Events.sealed_number(foreign),
                None,
                "{foreign}"
            );
        }
        assert_eq!(
            TableFamily::Events.tail_number("tail-00001.arrows"),
            Some(1)
        );
        assert!(is_trace_file("events-00001.parquet.tmp") && is_trace_file("meta.json.tmp"));
        assert_eq!(
            TableFamily::Waits.sealed_number("waits-00003.parquet"),
            Some(3)
        );
        assert_eq!(
            TableFamily::Waits.sealed_number("events-00003.parquet"),
            None
        );
        assert_eq!(
            TableFamily::Events.tail_number("waits-tail-00003.arrows"),
            None
        );
        assert!(is_trace_file("waits-00001.parquet") && is_trace_file("samples-tail-00001.arrows"));
        assert!(!is_trace_file("notes.txt") && !is_trace_file(".tmp"));
    }
}
