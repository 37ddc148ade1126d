//! Tables of rows that have no other structure than their columns: waits and samples.
//!
//! They come a thousand times less often than shootdowns may, so nothing here is made for each of them: a table says
//! which columns it has, and rows are put into them and taken from them in that order. A value has a fixed width in memory and
//! in a tail, where text is filled up with zeros.

mod read;
mod sealed;
mod tail;
mod write;

use super::names::Family;
use super::parquet_schema::{Column, Kind};

pub use read::Read;
pub(super) use read::read;
pub(super) use sealed::copy;
pub(super) use tail::extent;
pub(super) use write::Pending;

/// A row of a table.
pub(super) trait FlatRow: Sized {
    /// Which table.
    const FAMILY: Family;

    /// Puts every value, in the order of the columns.
    fn put(&self, to: &mut Put<'_>);

    /// Takes every value, in the same order.
    fn take(from: &mut Take<'_>) -> Self;
}

/// Bytes of a value in memory and in a tail.
fn width(kind: Kind) -> usize {
    match kind {
        Kind::U64 | Kind::I64 => 8,
        Kind::U32 | Kind::I32 => 4,
        Kind::U16 | Kind::I16 => 2,
        Kind::Short(bytes) => bytes.into(),
        // no flat table has such columns
        Kind::Bool | Kind::Text => 0,
    }
}

/// Some rows, by column.
pub(super) struct Batch {
    columns: &'static [Column],
    /// Of each column the values, one after the other.
    values: Vec<Vec<u8>>,
    rows: usize,
}

impl Batch {
    pub(super) fn new(columns: &'static [Column]) -> Self {
        Self {
            columns,
            values: vec![Vec::new(); columns.len()],
            rows: 0,
        }
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    pub(super) fn push(&mut self, row: &impl FlatRow) {
        row.put(&mut Put {
            batch: self,
            next: 0,
        });
        self.rows += 1;
        debug_assert!(self.is_even(), "a row has other columns than its table");
    }

    /// Hands over every row.
    fn each<R: FlatRow>(&self, mut each: impl FnMut(&R)) {
        for row in 0..self.rows {
            each(&R::take(&mut Take {
                batch: self,
                row,
                next: 0,
            }));
        }
    }

    fn clear(&mut self) {
        self.values.iter_mut().for_each(Vec::clear);
        self.rows = 0;
    }

    /// Adds the rows of another batch of the same table.
    fn append(&mut self, other: &Self) {
        for (values, others) in self.values.iter_mut().zip(&other.values) {
            values.extend_from_slice(others);
        }
        self.rows += other.rows;
    }

    /// Has each column a value for each row?
    fn is_even(&self) -> bool {
        let mut columns = self.columns.iter().zip(&self.values);
        columns.all(|((_, kind, _), values)| values.len() == self.rows * width(*kind))
    }
}

/// Where a row puts its values.
pub(super) struct Put<'a> {
    batch: &'a mut Batch,
    next: usize,
}

impl Put<'_> {
    fn value(&mut self, bytes: &[u8]) {
        if let Some(values) = self.batch.values.get_mut(self.next) {
            values.extend_from_slice(bytes);
        }
        self.next += 1;
    }

    pub(super) fn u64(&mut self, value: u64) {
        self.value(&value.to_le_bytes());
    }

    pub(super) fn u32(&mut self, value: u32) {
        self.value(&value.to_le_bytes());
    }

    pub(super) fn i32(&mut self, value: i32) {
        self.value(&value.to_le_bytes());
    }

    pub(super) fn u16(&mut self, value: u16) {
        self.value(&value.to_le_bytes());
    }

    pub(super) fn i16(&mut self, value: i16) {
        self.value(&value.to_le_bytes());
    }

    /// Text, cut where the column is narrower.
    pub(super) fn text(&mut self, text: &str) {
        let kind = self.batch.columns.get(self.next).map(|(_, kind, _)| *kind);
        let most = kind.map_or(0, width);
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

/// Where a row takes its values from. What is not there is zero.
pub(super) struct Take<'a> {
    batch: &'a Batch,
    row: usize,
    next: usize,
}

impl<'a> Take<'a> {
    fn bytes(&mut self) -> &'a [u8] {
        let column = self.next;
        self.next += 1;
        let batch: &'a Batch = self.batch;
        let kind = batch.columns.get(column).map(|(_, kind, _)| *kind);
        let width = kind.map_or(0, width);
        let values = batch.values.get(column);
        let value = values.and_then(|v| v.get(self.row * width..(self.row + 1) * width));
        value.unwrap_or_default()
    }

    fn value<const N: usize>(&mut self) -> [u8; N] {
        self.bytes().first_chunk().copied().unwrap_or([0; N])
    }

    pub(super) fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.value())
    }

    pub(super) fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.value())
    }

    pub(super) fn i32(&mut self) -> i32 {
        i32::from_le_bytes(self.value())
    }

    pub(super) fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.value())
    }

    pub(super) fn i16(&mut self) -> i16 {
        i16::from_le_bytes(self.value())
    }

    /// Text without the zeros behind it; a file may have anything there.
    pub(super) fn text(&mut self) -> std::borrow::Cow<'a, str> {
        String::from_utf8_lossy(without_zeros(self.bytes()))
    }
}

fn without_zeros(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|&b| b != 0).map_or(0, |at| at + 1);
    &bytes[..end]
}
