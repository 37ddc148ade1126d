//! The segments of a table of rows, sealed or not.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::names::Family;
use super::parquet_read::Sealed;
use super::row::Row;
use super::tail_read::{self, Extent};
use super::{Error, flat};

/// Some million rows.
#[derive(Debug)]
pub(super) enum Segment {
    Sealed(Sealed),
    /// Kept open: a recording that goes on may seal it meanwhile.
    Tail(PathBuf, File, Extent),
}

/// The files that hold one segment.
#[derive(Default)]
pub(super) struct Found {
    sealed: Option<PathBuf>,
    tail: Option<PathBuf>,
}

impl Segment {
    /// Hands over every row; of events alone.
    pub(super) fn for_each(&self, each: impl FnMut(&Row)) -> Result<(), Error> {
        match self {
            Self::Sealed(sealed) => sealed.for_each(each),
            Self::Tail(path, file, extent) => tail_read::for_each(file, extent.bytes, each)
                .map_err(|err| Error::unreadable(path, err)),
        }
    }

    pub(super) fn rows(&self) -> u64 {
        match self {
            Self::Sealed(sealed) => sealed.rows,
            Self::Tail(_, _, extent) => extent.rows,
        }
    }

    pub(super) fn unread(&self) -> u64 {
        match self {
            Self::Sealed(_) => 0,
            Self::Tail(_, _, extent) => extent.unread,
        }
    }
}

/// All segments of a table; they are numbered without a gap, so that a missing one is noticed.
pub(super) fn find(dir: &Path, family: Family) -> Result<Vec<Found>, Error> {
    let mut found: BTreeMap<u32, Found> = BTreeMap::new();
    let unreadable = |err| Error::unreadable(dir, err);
    for entry in std::fs::read_dir(dir).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        if let Some(n) = family.sealed_number(name) {
            found.entry(n).or_default().sealed = Some(entry.path());
        } else if let Some(n) = family.tail_number(name) {
            found.entry(n).or_default().tail = Some(entry.path());
        }
    }
    for (n, number) in (1..).zip(found.keys()) {
        if n != *number {
            return Err(Error::damaged(&family.sealed(dir, n), "is missing"));
        }
    }
    Ok(found.into_values().collect())
}

/// The sealed file counts where there are both: it got its name when it was whole, and the tail
/// was about to go.
pub(super) fn segment(
    dir: &Path,
    family: Family,
    number: u32,
    found: Found,
) -> Result<Segment, Error> {
    let sealed = match &found.sealed {
        Some(path) => match Sealed::open(path, family.columns()) {
            Ok(sealed) => return Ok(Segment::Sealed(sealed)),
            Err(err) => Some(err),
        },
        None => None,
    };
    let Some(path) = found.tail else {
        return Err(sealed.unwrap_or_else(|| Error::damaged(dir, "has a segment without a file")));
    };
    let open = || -> io::Result<(File, Extent)> {
        let file = super::error::open(&path)?;
        let extent = extent(&file, family)?;
        Ok((file, extent))
    };
    match (open(), sealed) {
        (Ok((file, extent)), None) => Ok(Segment::Tail(path, file, extent)),
        // The disk lost the sealed file's contents when the power went: the tail has them still.
        (Ok((file, extent)), Some(_)) if extent.unread == 0 && extent.rows > 0 => {
            Ok(Segment::Tail(path, file, extent))
        }
        (_, Some(err)) => Err(err),
        // Sealed since the directory was listed.
        (Err(err), None) if err.kind() == io::ErrorKind::NotFound => {
            Sealed::open(&family.sealed(dir, number), family.columns()).map(Segment::Sealed)
        }
        (Err(err), None) => Err(Error::unreadable(&path, err)),
    }
}

/// How much of a tail can be read.
pub(super) fn extent(file: &File, family: Family) -> io::Result<Extent> {
    match family {
        Family::Events => tail_read::extent(file),
        Family::Waits | Family::Samples => flat::extent(file, family),
    }
}
