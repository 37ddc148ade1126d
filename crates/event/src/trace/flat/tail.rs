//! A flat table in an Arrow stream: a column of fixed width each.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use arrow_array::types::{Int16Type, Int32Type, Int64Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{
    ArrayRef, ArrowPrimitiveType, FixedSizeBinaryArray, PrimitiveArray, RecordBatch,
};
use arrow_buffer::{Buffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};

use super::super::parquet_schema::{ColumnKind, ColumnSpec};
use super::super::schema::{SCHEMA_KEY, TRACE_SCHEMA};
use super::super::tail_frame::{
    MAX_BATCH_ROWS, MessageKind, StreamShape, TailMessage, read_message,
};
use super::super::tail_read::{TailExtent, tail_extent};
use super::{FlatBatch, width_bytes};

/// Key in the stream's metadata: the columns' names, by which tables are told apart.
const COLUMN_NAMES_KEY: &str = "quell.columns";

/// The columns of a tail.
pub(in super::super) fn flat_schema(columns: &[ColumnSpec]) -> SchemaRef {
    let field = |(name, kind, _): &ColumnSpec| {
        let data = match kind {
            ColumnKind::U64 => DataType::UInt64,
            ColumnKind::I64 => DataType::Int64,
            ColumnKind::U32 => DataType::UInt32,
            ColumnKind::U16 => DataType::UInt16,
            ColumnKind::I32 => DataType::Int32,
            ColumnKind::I16 => DataType::Int16,
            ColumnKind::Short(_) | ColumnKind::Bool | ColumnKind::Text => {
                DataType::FixedSizeBinary(i32::try_from(width_bytes(*kind)).unwrap_or(0))
            }
        };
        Field::new(*name, data, false)
    };
    let names: Vec<&str> = columns.iter().map(|(name, ..)| *name).collect();
    let metadata = HashMap::from([
        (SCHEMA_KEY.to_owned(), TRACE_SCHEMA.to_owned()),
        (COLUMN_NAMES_KEY.to_owned(), names.join(",")),
    ]);
    let fields: Vec<Field> = columns.iter().map(field).collect();
    Arc::new(Schema::new_with_metadata(fields, metadata))
}

/// The rows as batches of a stream.
pub(in super::super) fn encode_batches(
    batch: &FlatBatch,
    schema: &SchemaRef,
) -> Result<Vec<RecordBatch>, ArrowError> {
    let columns = batch.columns.iter().zip(&batch.values);
    let arrays = columns.map(|((_, kind, _), values)| encode_column(*kind, values, batch.rows));
    let whole = RecordBatch::try_new(schema.clone(), arrays.collect::<Result<Vec<_>, _>>()?)?;
    let pieces = (0..batch.rows).step_by(MAX_BATCH_ROWS);
    Ok(pieces
        .map(|from| whole.slice(from, MAX_BATCH_ROWS.min(batch.rows - from)))
        .collect())
}

fn encode_column(kind: ColumnKind, values: &[u8], rows: usize) -> Result<ArrayRef, ArrowError> {
    // copied to where numbers may lie
    let buffer = Buffer::from_slice_ref(values);
    fn numbers<T: ArrowPrimitiveType>(buffer: Buffer, rows: usize) -> ArrayRef {
        Arc::new(PrimitiveArray::<T>::new(
            ScalarBuffer::new(buffer, 0, rows),
            None,
        ))
    }
    Ok(match kind {
        ColumnKind::U64 => numbers::<UInt64Type>(buffer, rows),
        ColumnKind::I64 => numbers::<Int64Type>(buffer, rows),
        ColumnKind::U32 => numbers::<UInt32Type>(buffer, rows),
        ColumnKind::U16 => numbers::<UInt16Type>(buffer, rows),
        ColumnKind::I32 => numbers::<Int32Type>(buffer, rows),
        ColumnKind::I16 => numbers::<Int16Type>(buffer, rows),
        ColumnKind::Short(_) | ColumnKind::Bool | ColumnKind::Text => {
            let width = i32::try_from(width_bytes(kind)).unwrap_or(0);
            Arc::new(FixedSizeBinaryArray::try_new(width, buffer, None)?)
        }
    })
}

fn column_widths(columns: &[ColumnSpec]) -> Vec<u64> {
    let width = |(_, kind, _): &ColumnSpec| width_bytes(*kind) as u64;
    columns.iter().map(width).collect()
}

/// Finds the whole batches by their headers.
pub(in super::super) fn flat_extent(file: &File, columns: &[ColumnSpec]) -> io::Result<TailExtent> {
    let widths = column_widths(columns);
    tail_extent(file, &flat_shape(&widths))
}

fn flat_shape(widths: &[u64]) -> StreamShape<'_> {
    StreamShape {
        widths,
        dictionaries: &[],
        key: COLUMN_NAMES_KEY,
    }
}

/// Hands over the rows of the first `bytes` bytes, as [`flat_extent`] found them, a batch at a time. Ends with `each`'s error.
pub(in super::super) fn for_each_tail_batch<E: From<io::Error>>(
    file: &File,
    bytes: u64,
    columns: &'static [ColumnSpec],
    mut each: impl FnMut(&FlatBatch) -> Result<(), E>,
) -> Result<(), E> {
    let widths = column_widths(columns);
    let mut at = 0;
    let mut body = Vec::new();
    let mut batch = FlatBatch::new(columns);
    while let Some(TailMessage {
        kind,
        body_at,
        body_len,
        next,
    }) = read_message(file, at, bytes, &flat_shape(&widths))?
    {
        at = next;
        match kind {
            MessageKind::Rows(layout) => {
                // Grows to the largest body, which is checked to be in the file.
                body.resize(body_len, 0);
                file.read_exact_at(&mut body, body_at)?;
                batch.clear();
                batch.rows = layout.rows;
                let places = layout.columns.iter().zip(columns);
                for (values, (&from, (_, kind, _))) in batch.values.iter_mut().zip(places) {
                    let to = from.saturating_add(layout.rows.saturating_mul(width_bytes(*kind)));
                    values.extend_from_slice(body.get(from..to).unwrap_or_default());
                }
                each(&batch)?;
            }
            MessageKind::End => break,
            MessageKind::Schema(_) | MessageKind::Dictionary(..) => {}
        }
    }
    Ok(())
}
