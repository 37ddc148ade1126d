//! Reading a sealed segment.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::file::metadata::ParquetMetaData;

use super::TraceError;
use super::catch_panic::catch_quietly;
use super::cause_memo::CauseMemo;
use super::event_batch::{ColumnNeed, EVENT_COLUMNS, EventBatch, EventReaders};
use super::event_row::EventRow;
use super::parquet_file::{GroupColumns, damaged_if_garbled, open_parquet};
use super::parquet_guard::GuardedFile;
use super::parquet_schema::ColumnSpec;

/// Rows that are unpacked at a time: few enough to be in a CPU's cache still when they are asked for.
const ROWS_PER_READ: usize = 1 << 12;

/// A sealed segment.
#[derive(Debug)]
pub(super) struct SealedSegment {
    path: PathBuf,
    pub(super) rows: u64,
    /// Row groups: each can be read without the others.
    pub(super) groups: usize,
}

/// A sealed segment whose row groups are being read.
pub(super) struct RowGroups<'a> {
    path: &'a Path,
    file: Arc<GuardedFile>,
    footer: ParquetMetaData,
    need: ColumnNeed,
    batch: EventBatch,
    causes: CauseMemo,
}

impl SealedSegment {
    /// Checks that the file is whole and ours.
    pub(super) fn open(path: &Path, columns: &'static [ColumnSpec]) -> Result<Self, TraceError> {
        let (_, footer) = open_parquet(path, columns)?;
        let rows = footer
            .row_groups()
            .iter()
            .map(|g| g.num_rows().cast_unsigned())
            .sum();
        Ok(Self {
            path: path.to_owned(),
            rows,
            groups: footer.num_row_groups(),
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens it for reading.
    pub(super) fn open_groups(&self, need: ColumnNeed) -> Result<RowGroups<'_>, TraceError> {
        let (file, footer) = open_parquet(&self.path, EVENT_COLUMNS)?;
        Ok(RowGroups {
            path: &self.path,
            file: Arc::new(file),
            footer,
            need,
            batch: EventBatch::default(),
            causes: CauseMemo::default(),
        })
    }

    /// Hands over every row.
    pub(super) fn for_each_row(&self, mut each: impl FnMut(&EventRow)) -> Result<(), TraceError> {
        let mut groups = self.open_groups(ColumnNeed::Rows)?;
        (0..groups.footer.num_row_groups()).try_for_each(|n| groups.for_each_row(n, &mut each))
    }
}

impl RowGroups<'_> {
    /// Hands over every row of one row group.
    pub(super) fn for_each_row(
        &mut self,
        group: usize,
        mut each: impl FnMut(&EventRow),
    ) -> Result<(), TraceError> {
        let Some(group) = self.footer.row_groups().get(group) else {
            return Err(TraceError::damaged(self.path, "a row group has gone"));
        };
        let columns = GroupColumns {
            file: &self.file,
            group,
        };
        let open = || EventReaders::open(&columns, self.need);
        let mut readers = damaged_if_garbled(self.path, catch_quietly(open))?;
        let mut left = usize::try_from(group.num_rows()).unwrap_or(0);
        while left > 0 {
            let rows = left.min(ROWS_PER_READ);
            damaged_if_garbled(
                self.path,
                catch_quietly(|| readers.read_rows(rows, &mut self.batch)),
            )?;
            self.batch.for_each_row(&mut self.causes, &mut each);
            left -= rows;
        }
        Ok(())
    }
}
