//! Rows on their way to the disk.

use std::marker::PhantomData;
use std::path::Path;

use super::TraceError;
use super::flat::{self, FlatBatch, FlatRow};
use super::sealer::Sealer;
use super::tail_write::TailWriter;

/// Where so many rows could not be written, more are left out rather than kept in memory: these take some 80 MB.
const MAX_PENDING_FLAT_ROWS: usize = 1 << 19;
/// A tail of so many rows is sealed: it takes some 40 MB.
const MIN_FLAT_SEAL_ROWS: u64 = 1 << 18;

/// A flat table while it is recorded: rows that are not written yet, and the open tail.
pub(super) struct PendingTable<R> {
    /// Rows that are in no file yet.
    batch: FlatBatch,
    /// The tail that rows are appended to; `None` until the next rows come.
    tail: Option<TailWriter>,
    /// Tails that were begun, which is also the number of the last one.
    tails: u32,
    /// Rows in tails and segments.
    rows: u64,
    /// Rows that found no room.
    left_out: u64,
    /// A tail of so many rows is handed over to be sealed; [`MIN_FLAT_SEAL_ROWS`], but for tests.
    min_seal_rows: u64,
    of: PhantomData<R>,
}

impl<R: FlatRow> PendingTable<R> {
    pub(super) fn new() -> Self {
        Self {
            batch: FlatBatch::new(R::COLUMNS),
            tail: None,
            tails: 0,
            rows: 0,
            left_out: 0,
            min_seal_rows: MIN_FLAT_SEAL_ROWS,
            of: PhantomData,
        }
    }

    /// Adds a row, in memory.
    pub(super) fn push_row(&mut self, row: &R) {
        if self.batch.row_count() >= MAX_PENDING_FLAT_ROWS {
            self.left_out += 1;
        } else {
            self.batch.push_row(row);
        }
    }

    /// Rows in tails and segments.
    pub(super) fn row_count(&self) -> u64 {
        self.rows
    }

    /// Rows that found no room.
    pub(super) fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Segments, of which the last may be a tail.
    pub(super) fn segment_count(&self) -> u32 {
        self.tails
    }

    /// Writes the pending rows, and hands over a tail that is long enough.
    pub(super) fn write_pending(
        &mut self,
        dir: &Path,
        sealer: &mut Sealer,
    ) -> Result<(), TraceError> {
        if self.batch.row_count() > 0 {
            let mut tail = self.open_tail(dir)?;
            let rows = self.batch.row_count() as u64;
            let batches = flat::encode_batches(&self.batch, tail.schema());
            let written = batches
                .map_err(|err| tail.encoding_error(err))
                .and_then(|batches| tail.append_batches(&batches, rows));
            // encoded, if not written: the tail tries again
            self.batch.clear();
            self.rows += rows;
            self.tail = Some(tail);
            written?;
        } else if let Some(tail) = &mut self.tail {
            tail.append_batches(&[], 0)?;
        }
        if let Some(tail) = self.tail.take_if(|t| t.row_count() >= self.min_seal_rows) {
            sealer.rotate_tail(R::FAMILY, tail)?;
        }
        Ok(())
    }

    fn open_tail(&mut self, dir: &Path) -> Result<TailWriter, TraceError> {
        if let Some(tail) = self.tail.take() {
            return Ok(tail);
        }
        let schema = flat::flat_schema(R::COLUMNS);
        let tail = TailWriter::create(dir, R::FAMILY, self.tails + 1, schema)?;
        self.tails += 1;
        Ok(tail)
    }

    /// Hands over the last tail, or one without rows where there has been none: a pattern of file names that finds no
    /// file is an error for most readers of Parquet.
    pub(super) fn end_tail(&mut self, dir: &Path, sealer: &mut Sealer) -> Result<(), TraceError> {
        if self.tail.is_none() && self.tails > 0 {
            return Ok(());
        }
        let tail = self.open_tail(dir)?;
        sealer.rotate_tail(R::FAMILY, tail)
    }

    /// For tests, which can't wait for so many rows.
    #[cfg(test)]
    pub(super) fn seal_from(&mut self, rows: u64) {
        self.min_seal_rows = rows;
    }
}
