//! Turns a tail into a sealed segment.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use super::event_batch::{EVENT_COLUMNS, EventBatch, TextCache};
use super::file_names::TableFamily;
use super::parquet_write::{ROWS_PER_GROUP, create_file, io_error};
use super::segments::segment_extent;
use super::table_columns::columns_of;
use super::{TraceError, file_names, flat, tail_read};

/// Seals tail `number` and removes it. Returns the rows, or `None` where `stop` was set meanwhile,
/// and then nothing has changed.
///
/// The file gets its name when it is whole and on the disk, and only then the tail goes. So a crash
/// in between leaves both, and readers take the sealed one.
pub(super) fn seal_tail(
    dir: &Path,
    family: TableFamily,
    number: u32,
    stop: &AtomicBool,
) -> Result<Option<u64>, TraceError> {
    let tail = family.tail_path(dir, number);
    let sealed = family.sealed_path(dir, number);
    let aside = file_names::temporary_path(&sealed);
    let file = File::open(&tail).map_err(|err| TraceError::unreadable(&tail, err))?;
    let extent = segment_extent(&file, family).map_err(|err| TraceError::unreadable(&tail, err))?;
    if extent.unread > 0 {
        // Somebody else wrote to it: keep the bytes that can't be read here for whom they concern.
        return Err(TraceError::damaged(
            &tail,
            "has bytes that are no batch, so it is not sealed",
        ));
    }
    let copied = match family {
        TableFamily::Events => copy_events(&file, extent.bytes, &aside, stop),
        TableFamily::Waits | TableFamily::Samples => {
            flat::copy_to_parquet(&file, extent.bytes, columns_of(family), &aside, stop)
        }
    };
    match copied {
        Ok(true) => {}
        Ok(false) => {
            remove_half_written(&aside);
            return Ok(None);
        }
        Err(err) => {
            remove_half_written(&aside);
            return Err(TraceError::from_write(dir, &sealed, err));
        }
    }
    let finish = || {
        std::fs::rename(&aside, &sealed)?;
        std::fs::remove_file(&tail)
    };
    finish().map_err(|err| TraceError::from_write(dir, &sealed, err))?;
    Ok(Some(extent.rows))
}

/// A half-written file is in nobody's way but takes room.
fn remove_half_written(aside: &Path) {
    // It may never have been created, and there is nobody left to tell.
    let _ = std::fs::remove_file(aside);
}

/// Returns whether it came to the end.
fn copy_events(tail: &File, bytes: u64, to: &Path, stop: &AtomicBool) -> io::Result<bool> {
    let mut writer = create_file(to, EVENT_COLUMNS)?;
    let mut batch = EventBatch::default();
    let mut texts = TextCache::default();
    let mut result = Ok(());
    let mut stopped = false;
    tail_read::for_each_event(tail, bytes, |row| {
        if stopped || result.is_err() {
            return;
        }
        batch.push_row(row, &mut texts);
        if batch.row_count() == ROWS_PER_GROUP {
            result = writer
                .next_row_group()
                .and_then(|group| batch.write_row_group(group));
            batch.clear();
            stopped = stop.load(Ordering::Relaxed);
        }
    })?;
    result.map_err(io_error)?;
    if stopped {
        return Ok(false);
    }
    if batch.row_count() > 0 {
        writer
            .next_row_group()
            .and_then(|group| batch.write_row_group(group))
            .map_err(io_error)?;
    }
    let file = writer.into_inner().map_err(io_error)?;
    file.sync_all()?;
    Ok(true)
}
