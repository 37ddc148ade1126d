//! Tables of rows that have no other structure than their columns: waits and samples.
//!
//! They come a thousand times less often than shootdowns may, so nothing here is made for each of them: a table says
//! which columns it has, and rows are put into them and taken from them in that order. A value has a fixed width in memory and
//! in a tail, where text is filled up with zeros.

mod sealed;
mod tail;

use super::file_names::TableFamily;
use super::parquet_schema::{ColumnKind, ColumnSpec};

pub(super) use sealed::{copy_to_parquet, for_each_sealed_batch};
pub(super) use tail::{encode_batches, flat_extent, flat_schema, for_each_tail_batch};

/// A row of a table.
pub(super) trait FlatRow: Sized {
    /// The table that it is a row of.
    const FAMILY: TableFamily;
    /// The columns of that table.
    const COLUMNS: &'static [ColumnSpec];

    /// Puts every value, in the order of the columns.
    fn put_values(&self, to: &mut FlatRowWriter<'_>);

    /// Takes every value, in the same order.
    fn take_values(from: &mut FlatRowReader<'_>) -> Self;
}

/// Returns how many bytes a value takes in memory and in a tail.
fn width_bytes(kind: ColumnKind) -> usize {
    match kind {
        ColumnKind::U64 | ColumnKind::I64 => 8,
        ColumnKind::U32 | ColumnKind::I32 => 4,
        ColumnKind::U16 | ColumnKind::I16 => 2,
        ColumnKind::Short(bytes) => bytes.into(),
        // no flat table has such columns
        ColumnKind::Bool | ColumnKind::Text => 0,
    }
}

/// Some rows of a flat table, by column.
pub(super) struct FlatBatch {
    columns: &'static [ColumnSpec],
    /// The values of each column, one after the other.
    values: Vec<Vec<u8>>,
    rows: usize,
}

impl FlatBatch {
    pub(super) fn new(columns: &'static [ColumnSpec]) -> Self {
        Self {
            columns,
            values: vec![Vec::new(); columns.len()],
            rows: 0,
        }
    }

    pub(super) fn row_count(&self) -> usize {
        self.rows
    }

    pub(super) fn push_row(&mut self, row: &impl FlatRow) {
        row.put_values(&mut FlatRowWriter {
            batch: self,
            next: 0,
        });
        self.rows += 1;
        debug_assert!(
            self.has_equal_columns(),
            "a row has other columns than its table"
        );
    }

    /// Hands over every row, in order. `R` is a row of the table that this batch is of.
    pub(super) fn for_each_row<R: FlatRow>(&self, mut each: impl FnMut(&R)) {
        for row in 0..self.rows {
            each(&R::take_values(&mut FlatRowReader {
                batch: self,
                row,
                next: 0,
            }));
        }
    }

    pub(super) fn clear(&mut self) {
        self.values.iter_mut().for_each(Vec::clear);
        self.rows = 0;
    }

    /// Adds the rows of another batch of the same table.
    fn append_rows(&mut self, other: &Self) {
        for (values, others) in self.values.iter_mut().zip(&other.values) {
            values.extend_from_slice(others);
        }
        self.rows += other.rows;
    }

    /// Says whether each column has a value for each row.
    fn has_equal_columns(&self) -> bool {
        let mut columns = self.columns.iter().zip(&self.values);
        columns.all(|((_, kind, _), values)| values.len() == self.rows * width_bytes(*kind))
    }
}

/// A row puts its values into it, column by column.
pub(super) struct FlatRowWriter<'a> {
    batch: &'a mut FlatBatch,
    next: usize,
}

impl FlatRowWriter<'_> {
    fn put_bytes(&mut self, bytes: &[u8]) {
        if let Some(values) = self.batch.values.get_mut(self.next) {
            values.extend_from_slice(bytes);
        }
        self.next += 1;
    }

    pub(super) fn put_u64(&mut self, value: u64) {
        self.put_bytes(&value.to_le_bytes());
    }

    pub(super) fn put_u32(&mut self, value: u32) {
        self.put_bytes(&value.to_le_bytes());
    }

    pub(super) fn put_i32(&mut self, value: i32) {
        self.put_bytes(&value.to_le_bytes());
    }

    pub(super) fn put_u16(&mut self, value: u16) {
        self.put_bytes(&value.to_le_bytes());
    }

    pub(super) fn put_i16(&mut self, value: i16) {
        self.put_bytes(&value.to_le_bytes());
    }

    /// Text, cut where the column is narrower.
    pub(super) fn put_text(&mut self, text: &str) {
        let kind = self.batch.columns.get(self.next).map(|(_, kind, _)| *kind);
        let most = kind.map_or(0, width_bytes);
        let ends = |at: &usize| text.is_char_boundary(*at);
        let end = (0..=most.min(text.len())).rev().find(ends).unwrap_or(0);
        let text = &text[..end];
        if let Some(values) = self.batch.values.get_mut(self.next) {
            let end = values.len() + most;
            values.extend_from_slice(text.as_bytes());
            values.resize(end, 0);
        }
        self.next += 1;
    }
}

/// A row takes its values from it, column by column. A value that is not there is zero.
pub(super) struct FlatRowReader<'a> {
    batch: &'a FlatBatch,
    row: usize,
    next: usize,
}

impl<'a> FlatRowReader<'a> {
    fn take_bytes(&mut self) -> &'a [u8] {
        let column = self.next;
        self.next += 1;
        let batch: &'a FlatBatch = self.batch;
        let kind = batch.columns.get(column).map(|(_, kind, _)| *kind);
        let width = kind.map_or(0, width_bytes);
        let values = batch.values.get(column);
        let value = values.and_then(|v| v.get(self.row * width..(self.row + 1) * width));
        value.unwrap_or_default()
    }

    fn take_array<const N: usize>(&mut self) -> [u8; N] {
        self.take_bytes().first_chunk().copied().unwrap_or([0; N])
    }

    pub(super) fn take_u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take_array())
    }

    pub(super) fn take_u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take_array())
    }

    pub(super) fn take_i32(&mut self) -> i32 {
        i32::from_le_bytes(self.take_array())
    }

    pub(super) fn take_u16(&mut self) -> u16 {
        u16::from_le_bytes(self.take_array())
    }

    pub(super) fn take_i16(&mut self) -> i16 {
        i16::from_le_bytes(self.take_array())
    }

    /// Text without the zeros behind it; a file may have anything there.
    pub(super) fn take_text(&mut self) -> std::borrow::Cow<'a, str> {
        String::from_utf8_lossy(without_zeros(self.take_bytes()))
    }
}

fn without_zeros(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|&b| b != 0).map_or(0, |at| at + 1);
    &bytes[..end]
}
