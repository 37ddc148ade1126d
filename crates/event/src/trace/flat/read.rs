//! Reading a flat table, sealed or not.

use std::path::Path;

use super::super::Error;
use super::super::segments::{Segment, find, segment};
use super::{FlatRow, sealed, tail};

/// What was read of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Read {
    /// Rows.
    pub rows: u64,
    /// Bytes at the end of tails that belong to no whole batch.
    pub unread_bytes: u64,
}

/// Hands over every row of a table; there may be none.
pub(in super::super) fn read<R: FlatRow>(
    dir: &Path,
    mut each: impl FnMut(&R),
) -> Result<Read, Error> {
    let mut done = Read::default();
    let columns = R::FAMILY.columns();
    for (number, found) in (1..).zip(find(dir, R::FAMILY)?) {
        let segment = segment(dir, R::FAMILY, number, found)?;
        done.rows += segment.rows();
        done.unread_bytes += segment.unread();
        match segment {
            Segment::Sealed(sealed) => {
                sealed::for_each(sealed.path(), columns, |batch| batch.each(&mut each))?;
            }
            Segment::Tail(path, file, extent) => {
                let each = |batch: &super::Batch| -> std::io::Result<()> {
                    batch.each(&mut each);
                    Ok(())
                };
                tail::for_each(&file, extent.bytes, columns, each)
                    .map_err(|err| Error::unreadable(&path, err))?;
            }
        }
    }
    Ok(done)
}
