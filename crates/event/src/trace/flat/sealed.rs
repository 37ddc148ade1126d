//! A flat table in Parquet.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parquet::column::reader::ColumnReaderImpl;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::writer::SerializedRowGroupWriter;

use super::super::TraceError;
use super::super::catch_panic::catch_quietly;
use super::super::parquet_file::{GroupColumns, damaged_if_garbled, open_parquet};
use super::super::parquet_schema::{ColumnKind, ColumnSpec};
use super::super::parquet_write::{ROWS_PER_GROUP, create_file, io_error};
use super::{FlatBatch, tail, width_bytes, without_zeros};

/// Rows that are unpacked at a time.
const ROWS_PER_READ: usize = 1 << 12;

/// Copies a tail to a Parquet file, on the disk. Returns whether it came to the end before `stop` was set.
pub(in super::super) fn copy_to_parquet(
    from: &File,
    bytes: u64,
    columns: &'static [ColumnSpec],
    to: &Path,
    stop: &AtomicBool,
) -> io::Result<bool> {
    let mut writer = create_file(to, columns)?;
    let mut group = FlatBatch::new(columns);
    let mut stopped = false;
    tail::for_each_tail_batch(from, bytes, columns, |batch| -> io::Result<()> {
        stopped = stopped || stop.load(Ordering::Relaxed);
        if stopped {
            return Ok(());
        }
        group.append_rows(batch);
        if group.rows >= ROWS_PER_GROUP {
            let whole = writer.next_row_group();
            whole
                .and_then(|to| write_row_group(&group, to))
                .map_err(io_error)?;
            group.clear();
        }
        Ok(())
    })?;
    if stopped {
        return Ok(false);
    }
    if group.rows > 0 {
        let last = writer.next_row_group();
        last.and_then(|to| write_row_group(&group, to))
            .map_err(io_error)?;
    }
    writer.into_inner().map_err(io_error)?.sync_all()?;
    Ok(true)
}

/// Writes all rows as one row group.
fn write_row_group<W: Write + Send>(
    batch: &FlatBatch,
    mut to: SerializedRowGroupWriter<'_, W>,
) -> Result<()> {
    let mut texts: HashMap<&[u8], ByteArray> = HashMap::new();
    for ((_, kind, _), values) in batch.columns.iter().zip(&batch.values) {
        let missing = || ParquetError::General("the schema has too few columns".into());
        let mut column = to.next_column()?.ok_or_else(missing)?;
        match kind {
            ColumnKind::U64 | ColumnKind::I64 => {
                let values: Vec<i64> = fixed_values(values).map(i64::from_le_bytes).collect();
                column
                    .typed::<Int64Type>()
                    .write_batch(&values, None, None)?;
            }
            ColumnKind::Short(_) | ColumnKind::Bool | ColumnKind::Text => {
                let values = values.chunks_exact(width_bytes(*kind).max(1));
                let new = |bytes: &&[u8]| {
                    let text = String::from_utf8_lossy(without_zeros(bytes));
                    ByteArray::from(text.as_ref())
                };
                let values: Vec<ByteArray> = values
                    .map(|bytes| texts.entry(bytes).or_insert_with_key(new).clone())
                    .collect();
                column
                    .typed::<ByteArrayType>()
                    .write_batch(&values, None, None)?;
            }
            _ => {
                let values: Vec<i32> = match kind {
                    ColumnKind::U16 => fixed_values(values)
                        .map(|v| u16::from_le_bytes(v).into())
                        .collect(),
                    ColumnKind::I16 => fixed_values(values)
                        .map(|v| i16::from_le_bytes(v).into())
                        .collect(),
                    _ => fixed_values(values).map(i32::from_le_bytes).collect(),
                };
                column
                    .typed::<Int32Type>()
                    .write_batch(&values, None, None)?;
            }
        }
        column.close()?;
    }
    to.close()?;
    Ok(())
}

fn fixed_values<const N: usize>(values: &[u8]) -> impl Iterator<Item = [u8; N]> {
    values.as_chunks().0.iter().copied()
}

/// Hands over every row, some at a time.
pub(in super::super) fn for_each_sealed_batch(
    path: &Path,
    columns: &'static [ColumnSpec],
    mut each: impl FnMut(&FlatBatch),
) -> std::result::Result<(), TraceError> {
    let (file, footer) = open_parquet(path, columns)?;
    let file = Arc::new(file);
    let mut batch = FlatBatch::new(columns);
    for group in footer.row_groups() {
        let from = GroupColumns { file: &file, group };
        let open = || {
            let readers = columns.iter().enumerate();
            readers
                .map(|(number, (_, kind, _))| FlatColumnReader::open(&from, number, *kind))
                .collect::<Result<Vec<_>>>()
        };
        let mut readers = damaged_if_garbled(path, catch_quietly(open))?;
        let mut left = usize::try_from(group.num_rows()).unwrap_or(0);
        while left > 0 {
            let rows = left.min(ROWS_PER_READ);
            let read = || {
                batch.clear();
                batch.rows = rows;
                let mut columns = readers.iter_mut().zip(&mut batch.values);
                columns.try_for_each(|(reader, values)| reader.read(rows, values))
            };
            damaged_if_garbled(path, catch_quietly(read))?;
            each(&batch);
            left -= rows;
        }
    }
    Ok(())
}

/// Reads one column.
enum FlatColumnReader {
    Long(ColumnReaderImpl<Int64Type>),
    Int(ColumnReaderImpl<Int32Type>, ColumnKind),
    Text(ColumnReaderImpl<ByteArrayType>, usize),
}

impl FlatColumnReader {
    fn open(from: &GroupColumns<'_>, number: usize, kind: ColumnKind) -> Result<Self> {
        Ok(match kind {
            ColumnKind::U64 | ColumnKind::I64 => Self::Long(from.open_column(number)?),
            ColumnKind::Short(_) | ColumnKind::Bool | ColumnKind::Text => {
                Self::Text(from.open_column(number)?, width_bytes(kind))
            }
            _ => Self::Int(from.open_column(number)?, kind),
        })
    }

    /// Appends exactly so many values.
    fn read(&mut self, rows: usize, to: &mut Vec<u8>) -> Result<()> {
        match self {
            Self::Long(reader) => {
                let values = read_exactly(reader, rows)?;
                to.extend(values.iter().flat_map(|v| v.to_le_bytes()));
            }
            Self::Int(reader, kind) => {
                // the low bytes of a number without a sign or with one
                let bytes = width_bytes(*kind);
                for value in read_exactly(reader, rows)? {
                    to.extend_from_slice(&value.to_le_bytes()[..bytes]);
                }
            }
            Self::Text(reader, width) => {
                for value in read_exactly(reader, rows)? {
                    let bytes = value.data();
                    let end = to.len() + *width;
                    to.extend_from_slice(&bytes[..bytes.len().min(*width)]);
                    to.resize(end, 0);
                }
            }
        }
        Ok(())
    }
}

fn read_exactly<T: DataType>(reader: &mut ColumnReaderImpl<T>, rows: usize) -> Result<Vec<T::T>> {
    let mut values = Vec::with_capacity(rows);
    reader.read_records(rows, None, None, &mut values)?;
    if values.len() != rows {
        return Err(ParquetError::EOF("a column ends early".into()));
    }
    Ok(values)
}
