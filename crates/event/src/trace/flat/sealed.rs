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
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};

use super::super::Error;
use super::super::parquet_file::{Columns, garbled, open};
use super::super::parquet_schema::{Column, Kind, properties, schema};
use super::super::quiet::calm;
use super::super::seal::{GROUP_ROWS, io_error};
use super::{Batch, tail, width, without_zeros};

/// Rows that are unpacked at a time.
const READ_ROWS: usize = 1 << 12;

/// Copies a tail to a Parquet file, on the disk. Returns whether it came to the end before `stop` was set.
pub(in super::super) fn copy(
    from: &File,
    bytes: u64,
    columns: &'static [Column],
    to: &Path,
    stop: &AtomicBool,
) -> io::Result<bool> {
    let properties = Arc::new(properties(columns).map_err(io_error)?);
    let schema = schema(columns).map_err(io_error)?;
    let mut writer =
        SerializedFileWriter::new(File::create(to)?, schema, properties).map_err(io_error)?;
    let mut group = Batch::new(columns);
    let mut stopped = false;
    tail::for_each(from, bytes, columns, |batch| -> io::Result<()> {
        stopped = stopped || stop.load(Ordering::Relaxed);
        if stopped {
            return Ok(());
        }
        group.append(batch);
        if group.rows >= GROUP_ROWS {
            let whole = writer.next_row_group();
            whole.and_then(|to| write(&group, to)).map_err(io_error)?;
            group.clear();
        }
        Ok(())
    })?;
    if stopped {
        return Ok(false);
    }
    if group.rows > 0 {
        let last = writer.next_row_group();
        last.and_then(|to| write(&group, to)).map_err(io_error)?;
    }
    writer.into_inner().map_err(io_error)?.sync_all()?;
    Ok(true)
}

/// Writes all rows as one row group.
fn write<W: Write + Send>(batch: &Batch, mut to: SerializedRowGroupWriter<'_, W>) -> Result<()> {
    let mut texts: HashMap<&[u8], ByteArray> = HashMap::new();
    for ((_, kind, _), values) in batch.columns.iter().zip(&batch.values) {
        let missing = || ParquetError::General("the schema has too few columns".into());
        let mut column = to.next_column()?.ok_or_else(missing)?;
        match kind {
            Kind::U64 | Kind::I64 => {
                let values: Vec<i64> = each(values).map(i64::from_le_bytes).collect();
                column
                    .typed::<Int64Type>()
                    .write_batch(&values, None, None)?;
            }
            Kind::Short(_) | Kind::Bool | Kind::Text => {
                let values = values.chunks_exact(width(*kind).max(1));
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
                    Kind::U16 => each(values).map(|v| u16::from_le_bytes(v).into()).collect(),
                    Kind::I16 => each(values).map(|v| i16::from_le_bytes(v).into()).collect(),
                    _ => each(values).map(i32::from_le_bytes).collect(),
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

fn each<const N: usize>(values: &[u8]) -> impl Iterator<Item = [u8; N]> {
    values.as_chunks().0.iter().copied()
}

/// Hands over every row, some at a time.
pub(super) fn for_each(
    path: &Path,
    columns: &'static [Column],
    mut each: impl FnMut(&Batch),
) -> std::result::Result<(), Error> {
    let (file, footer) = open(path, columns)?;
    let file = Arc::new(file);
    let mut batch = Batch::new(columns);
    for group in footer.row_groups() {
        let from = Columns { file: &file, group };
        let open = || {
            let readers = columns.iter().enumerate();
            readers
                .map(|(number, (_, kind, _))| Reader::open(&from, number, *kind))
                .collect::<Result<Vec<_>>>()
        };
        let mut readers = garbled(path, calm(open))?;
        let mut left = usize::try_from(group.num_rows()).unwrap_or(0);
        while left > 0 {
            let rows = left.min(READ_ROWS);
            let read = || {
                batch.clear();
                batch.rows = rows;
                let mut columns = readers.iter_mut().zip(&mut batch.values);
                columns.try_for_each(|(reader, values)| reader.read(rows, values))
            };
            garbled(path, calm(read))?;
            each(&batch);
            left -= rows;
        }
    }
    Ok(())
}

/// Reads one column.
enum Reader {
    Long(ColumnReaderImpl<Int64Type>),
    Int(ColumnReaderImpl<Int32Type>, Kind),
    Text(ColumnReaderImpl<ByteArrayType>, usize),
}

impl Reader {
    fn open(from: &Columns<'_>, number: usize, kind: Kind) -> Result<Self> {
        Ok(match kind {
            Kind::U64 | Kind::I64 => Self::Long(from.open(number)?),
            Kind::Short(_) | Kind::Bool | Kind::Text => Self::Text(from.open(number)?, width(kind)),
            _ => Self::Int(from.open(number)?, kind),
        })
    }

    /// Appends exactly so many values.
    fn read(&mut self, rows: usize, to: &mut Vec<u8>) -> Result<()> {
        match self {
            Self::Long(reader) => {
                let values = exactly(reader, rows)?;
                to.extend(values.iter().flat_map(|v| v.to_le_bytes()));
            }
            Self::Int(reader, kind) => {
                // the low bytes of a number without a sign or with one
                let bytes = width(*kind);
                for value in exactly(reader, rows)? {
                    to.extend_from_slice(&value.to_le_bytes()[..bytes]);
                }
            }
            Self::Text(reader, width) => {
                for value in exactly(reader, rows)? {
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

fn exactly<T: DataType>(reader: &mut ColumnReaderImpl<T>, rows: usize) -> Result<Vec<T::T>> {
    let mut values = Vec::with_capacity(rows);
    reader.read_records(rows, None, None, &mut values)?;
    if values.len() != rows {
        return Err(ParquetError::EOF("a column ends early".into()));
    }
    Ok(values)
}
