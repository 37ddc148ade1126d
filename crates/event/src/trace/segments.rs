//! The segments of a table of rows, sealed or not.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::error::open_regular_file;
use super::event_row::EventRow;
use super::file_names::TableFamily;
use super::parquet_read::SealedSegment;
use super::table_columns::columns_of;
use super::tail_read::{self, TailExtent};
use super::{TraceError, flat};

/// A piece of a table, of some million rows at most.
#[derive(Debug)]
pub(super) enum TableSegment {
    Sealed(SealedSegment),
    /// Kept open: a recording that goes on may seal it meanwhile.
    Tail(PathBuf, File, TailExtent),
}

/// The files that hold one segment: one of the two, and both for the moment in which a sealed one replaces its tail.
#[derive(Default)]
pub(super) struct SegmentFiles {
    sealed: Option<PathBuf>,
    tail: Option<PathBuf>,
}

impl TableSegment {
    /// Hands over every row; of events alone.
    pub(super) fn for_each_row(&self, each: impl FnMut(&EventRow)) -> Result<(), TraceError> {
        match self {
            Self::Sealed(sealed) => sealed.for_each_row(each),
            Self::Tail(path, file, extent) => tail_read::for_each_event(file, extent.bytes, each)
                .map_err(|err| TraceError::unreadable(path, err)),
        }
    }

    pub(super) fn row_count(&self) -> u64 {
        match self {
            Self::Sealed(sealed) => sealed.rows,
            Self::Tail(_, _, extent) => extent.rows,
        }
    }

    pub(super) fn unread_bytes(&self) -> u64 {
        match self {
            Self::Sealed(_) => 0,
            Self::Tail(_, _, extent) => extent.unread,
        }
    }
}

/// Finds the files of all segments of a table, in the order of their numbers. Those begin at 1 and have no gap, so that a missing one
/// is noticed.
pub(super) fn find_segments(
    dir: &Path,
    family: TableFamily,
) -> Result<Vec<SegmentFiles>, TraceError> {
    let mut found: BTreeMap<u32, SegmentFiles> = BTreeMap::new();
    let unreadable = |err| TraceError::unreadable(dir, err);
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
            return Err(TraceError::damaged(
                &family.sealed_path(dir, n),
                "is missing",
            ));
        }
    }
    Ok(found.into_values().collect())
}

/// Opens segment `number` by the files that [`find_segments`] found for it. The sealed file counts where there are both: it got its
/// name when it was whole, and the tail was about to go. A tail stays open, and as long as it was then: what a recording appends
/// later is not read.
pub(super) fn open_segment(
    dir: &Path,
    family: TableFamily,
    number: u32,
    found: SegmentFiles,
) -> Result<TableSegment, TraceError> {
    let sealed = match &found.sealed {
        Some(path) => match SealedSegment::open(path, columns_of(family)) {
            Ok(sealed) => return Ok(TableSegment::Sealed(sealed)),
            Err(err) => Some(err),
        },
        None => None,
    };
    let Some(path) = found.tail else {
        return Err(
            sealed.unwrap_or_else(|| TraceError::damaged(dir, "has a segment without a file"))
        );
    };
    let open = || -> io::Result<(File, TailExtent)> {
        let file = open_regular_file(&path)?;
        let extent = segment_extent(&file, family)?;
        Ok((file, extent))
    };
    match (open(), sealed) {
        (Ok((file, extent)), None) => Ok(TableSegment::Tail(path, file, extent)),
        // The disk lost the sealed file's contents when the power went: the tail has them still.
        (Ok((file, extent)), Some(_)) if extent.unread == 0 && extent.rows > 0 => {
            Ok(TableSegment::Tail(path, file, extent))
        }
        (_, Some(err)) => Err(err),
        // A recording that goes on has sealed it since the directory was listed, and deleted the tail.
        (Err(err), None) if err.kind() == io::ErrorKind::NotFound => {
            SealedSegment::open(&family.sealed_path(dir, number), columns_of(family))
                .map(TableSegment::Sealed)
        }
        (Err(err), None) => Err(TraceError::unreadable(&path, err)),
    }
}

/// How much of a tail can be read.
pub(super) fn segment_extent(file: &File, family: TableFamily) -> io::Result<TailExtent> {
    match family {
        TableFamily::Events => tail_read::event_extent(file),
        TableFamily::Waits | TableFamily::Samples => flat::flat_extent(file, columns_of(family)),
    }
}
