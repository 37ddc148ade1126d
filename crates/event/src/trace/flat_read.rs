//! Reading a flat table, sealed or not.

use std::path::Path;

use super::TraceError;
use super::flat::{self, FlatRow};
use super::segments::{TableSegment, find_segments, open_segment};

/// How much of a table was read, and how much could not be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableReadCounts {
    /// Rows that were read.
    pub rows: u64,
    /// Bytes at the end of tails that belong to no whole batch.
    pub unread_bytes: u64,
}

/// Hands over every row of a table; there may be none.
pub(super) fn read_flat_table<R: FlatRow>(
    dir: &Path,
    mut each: impl FnMut(&R),
) -> Result<TableReadCounts, TraceError> {
    let mut done = TableReadCounts::default();
    let columns = R::COLUMNS;
    for (number, found) in (1..).zip(find_segments(dir, R::FAMILY)?) {
        let segment = open_segment(dir, R::FAMILY, number, found)?;
        done.rows += segment.row_count();
        done.unread_bytes += segment.unread_bytes();
        match segment {
            TableSegment::Sealed(sealed) => {
                flat::for_each_sealed_batch(sealed.path(), columns, |batch| {
                    batch.for_each_row(&mut each);
                })?;
            }
            TableSegment::Tail(path, file, extent) => {
                let each = |batch: &flat::FlatBatch| -> std::io::Result<()> {
                    batch.for_each_row(&mut each);
                    Ok(())
                };
                flat::for_each_tail_batch(&file, extent.bytes, columns, each)
                    .map_err(|err| TraceError::unreadable(&path, err))?;
            }
        }
    }
    Ok(done)
}
