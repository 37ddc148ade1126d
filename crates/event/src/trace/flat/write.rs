//! Rows on their way to the disk.

use std::marker::PhantomData;
use std::path::Path;

use super::super::Error;
use super::super::sealer::Sealer;
use super::super::tail_write::Tail;
use super::{Batch, FlatRow, tail};

/// Beyond so many rows that could not be written, more are left out rather than kept in memory: some 80 MB.
const ROWS_CAP: usize = 1 << 19;
/// A tail is sealed from so many rows on: some 40 MB.
const TAIL_ROWS: u64 = 1 << 18;

/// One table while it is recorded.
pub(in super::super) struct Pending<R> {
    batch: Batch,
    tail: Option<Tail>,
    tails: u32,
    rows: u64,
    left_out: u64,
    tail_rows: u64,
    of: PhantomData<R>,
}

impl<R: FlatRow> Pending<R> {
    pub(in super::super) fn new() -> Self {
        Self {
            batch: Batch::new(R::FAMILY.columns()),
            tail: None,
            tails: 0,
            rows: 0,
            left_out: 0,
            tail_rows: TAIL_ROWS,
            of: PhantomData,
        }
    }

    /// Adds a row, in memory.
    pub(in super::super) fn push(&mut self, row: &R) {
        if self.batch.rows() >= ROWS_CAP {
            self.left_out += 1;
        } else {
            self.batch.push(row);
        }
    }

    /// Rows in tails and segments.
    pub(in super::super) fn rows(&self) -> u64 {
        self.rows
    }

    /// Rows that found no room.
    pub(in super::super) fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Segments, of which the last may be a tail.
    pub(in super::super) fn segments(&self) -> u32 {
        self.tails
    }

    /// Writes what is pending, and hands over a tail that is long enough.
    pub(in super::super) fn write(&mut self, dir: &Path, sealer: &mut Sealer) -> Result<(), Error> {
        if self.batch.rows() > 0 {
            let mut tail = self.open_tail(dir)?;
            let rows = self.batch.rows() as u64;
            let batches = tail::batches(&self.batch, tail.schema());
            let written = batches
                .map_err(|err| tail.encoding(err))
                .and_then(|batches| tail.append_batches(&batches, rows));
            // encoded, if not written: the tail tries again
            self.batch.clear();
            self.rows += rows;
            self.tail = Some(tail);
            written?;
        } else if let Some(tail) = &mut self.tail {
            tail.append_batches(&[], 0)?;
        }
        if let Some(tail) = self.tail.take_if(|t| t.rows() >= self.tail_rows) {
            sealer.rotate(R::FAMILY, tail)?;
        }
        Ok(())
    }

    fn open_tail(&mut self, dir: &Path) -> Result<Tail, Error> {
        if let Some(tail) = self.tail.take() {
            return Ok(tail);
        }
        let schema = tail::schema(R::FAMILY.columns());
        let tail = Tail::create(dir, R::FAMILY, self.tails + 1, schema)?;
        self.tails += 1;
        Ok(tail)
    }

    /// Hands over the last tail, or one without rows where there has been none: a pattern of file names that finds no
    /// file is an error for most readers of Parquet.
    pub(in super::super) fn end(&mut self, dir: &Path, sealer: &mut Sealer) -> Result<(), Error> {
        if self.tail.is_none() && self.tails > 0 {
            return Ok(());
        }
        let tail = self.open_tail(dir)?;
        sealer.rotate(R::FAMILY, tail)
    }

    /// For tests, which can't wait for so many rows.
    #[cfg(test)]
    pub(in super::super) fn seal_from(&mut self, rows: u64) {
        self.tail_rows = rows;
    }
}
