//! Turns a tail into a sealed segment.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parquet::errors::ParquetError;
use parquet::file::writer::SerializedFileWriter;

use super::names::Family;
use super::parquet_batch::{Batch, COLUMNS, Texts};
use super::parquet_schema::{properties, schema};
use super::segments::extent;
use super::{Error, flat, names, tail_read};

/// Rows of a row group: what DuckDB works on at a time, and some 20 MB here.
pub(super) const GROUP_ROWS: usize = 122_880;

/// Seals tail `number` and removes it. Returns the rows, or `None` where `stop` was set meanwhile,
/// and then nothing has changed.
///
/// The file gets its name when it is whole and on the disk, and only then the tail goes. So a crash
/// in between leaves both, and readers take the sealed one.
pub(super) fn seal(
    dir: &Path,
    family: Family,
    number: u32,
    stop: &AtomicBool,
) -> Result<Option<u64>, Error> {
    let tail = family.tail(dir, number);
    let sealed = family.sealed(dir, number);
    let aside = names::aside(&sealed);
    let file = File::open(&tail).map_err(|err| Error::unreadable(&tail, err))?;
    let extent = extent(&file, family).map_err(|err| Error::unreadable(&tail, err))?;
    if extent.unread > 0 {
        // Somebody else wrote to it: keep what can't be read here for whom it concerns.
        return Err(Error::damaged(
            &tail,
            "has bytes that are no batch, so it is not sealed",
        ));
    }
    let copied = match family {
        Family::Events => copy(&file, extent.bytes, &aside, stop),
        Family::Waits | Family::Samples => {
            flat::copy(&file, extent.bytes, family.columns(), &aside, stop)
        }
    };
    match copied {
        Ok(true) => {}
        Ok(false) => {
            remove(&aside);
            return Ok(None);
        }
        Err(err) => {
            remove(&aside);
            return Err(Error::write(dir, &sealed, err));
        }
    }
    let finish = || {
        std::fs::rename(&aside, &sealed)?;
        std::fs::remove_file(&tail)
    };
    finish().map_err(|err| Error::write(dir, &sealed, err))?;
    Ok(Some(extent.rows))
}

/// A half-written file is in nobody's way but takes room.
fn remove(aside: &Path) {
    // It may never have been created, and there is nobody left to tell.
    let _ = std::fs::remove_file(aside);
}

/// Returns whether it came to the end.
fn copy(tail: &File, bytes: u64, to: &Path, stop: &AtomicBool) -> io::Result<bool> {
    let properties = Arc::new(properties(COLUMNS).map_err(io_error)?);
    let schema = schema(COLUMNS).map_err(io_error)?;
    let mut writer =
        SerializedFileWriter::new(File::create(to)?, schema, properties).map_err(io_error)?;
    let mut batch = Batch::default();
    let mut texts = Texts::default();
    let mut result = Ok(());
    let mut stopped = false;
    tail_read::for_each(tail, bytes, |row| {
        if stopped || result.is_err() {
            return;
        }
        batch.push(row, &mut texts);
        if batch.rows() == GROUP_ROWS {
            result = writer.next_row_group().and_then(|group| batch.write(group));
            batch.clear();
            stopped = stop.load(Ordering::Relaxed);
        }
    })?;
    result.map_err(io_error)?;
    if stopped {
        return Ok(false);
    }
    if batch.rows() > 0 {
        writer
            .next_row_group()
            .and_then(|group| batch.write(group))
            .map_err(io_error)?;
    }
    let file = writer.into_inner().map_err(io_error)?;
    file.sync_all()?;
    Ok(true)
}

/// The system's error, where there is one, so that a full disk can be told.
pub(super) fn io_error(err: ParquetError) -> io::Error {
    match err {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(err) => *err,
            Err(inner) => io::Error::other(inner),
        },
        err => io::Error::other(err),
    }
}
