//! Reading a sealed segment.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::file::metadata::ParquetMetaData;

use super::Error;
use super::cause_memo::CauseMemo;
use super::parquet_batch::{Batch, COLUMNS, Need, Readers};
use super::parquet_file::{Columns, garbled, open};
use super::parquet_guard::GuardedFile;
use super::parquet_schema::Column;
use super::quiet::calm;
use super::row::Row;

/// Rows that are unpacked at a time: few enough to be in a CPU's cache still when they are asked for.
const BATCH_ROWS: usize = 1 << 12;

/// A sealed segment.
#[derive(Debug)]
pub(super) struct Sealed {
    path: PathBuf,
    pub(super) rows: u64,
    /// Row groups: each can be read without the others.
    pub(super) groups: usize,
}

/// A sealed segment whose row groups are being read.
pub(super) struct Groups<'a> {
    path: &'a Path,
    file: Arc<GuardedFile>,
    footer: ParquetMetaData,
    need: Need,
    batch: Batch,
    causes: CauseMemo,
}

impl Sealed {
    /// Checks that the file is whole and ours.
    pub(super) fn open(path: &Path, columns: &'static [Column]) -> Result<Self, Error> {
        let (_, footer) = open(path, columns)?;
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
    pub(super) fn groups(&self, need: Need) -> Result<Groups<'_>, Error> {
        let (file, footer) = open(&self.path, COLUMNS)?;
        Ok(Groups {
            path: &self.path,
            file: Arc::new(file),
            footer,
            need,
            batch: Batch::default(),
            causes: CauseMemo::default(),
        })
    }

    /// Hands over every row.
    pub(super) fn for_each(&self, mut each: impl FnMut(&Row)) -> Result<(), Error> {
        let mut groups = self.groups(Need::Rows)?;
        (0..groups.footer.num_row_groups()).try_for_each(|n| groups.for_each(n, &mut each))
    }
}

impl Groups<'_> {
    /// Hands over every row of one row group.
    pub(super) fn for_each(
        &mut self,
        group: usize,
        mut each: impl FnMut(&Row),
    ) -> Result<(), Error> {
        let Some(group) = self.footer.row_groups().get(group) else {
            return Err(Error::damaged(self.path, "a row group has gone"));
        };
        let columns = Columns {
            file: &self.file,
            group,
        };
        let open = || Readers::open(&columns, self.need);
        let mut readers = garbled(self.path, calm(open))?;
        let mut left = usize::try_from(group.num_rows()).unwrap_or(0);
        while left > 0 {
            let rows = left.min(BATCH_ROWS);
            garbled(self.path, calm(|| readers.read(rows, &mut self.batch)))?;
            self.batch.for_each(&mut self.causes, &mut each);
            left -= rows;
        }
        Ok(())
    }
}
