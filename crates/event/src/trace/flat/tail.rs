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

use super::super::SCHEMA;
use super::super::names::Family;
use super::super::parquet_schema::{Column, Kind};
use super::super::tail_frame::{self, Message, Shape, message};
use super::super::tail_read::{Extent, extent_of};
use super::super::tail_schema::{BATCH_ROWS, SCHEMA_KEY};
use super::{Batch, width};

/// Key in the stream's metadata: the columns' names, by which tables are told apart.
const COLUMNS_KEY: &str = "quell.columns";

/// The columns of a tail.
pub(super) fn schema(columns: &[Column]) -> SchemaRef {
    let field = |(name, kind, _): &Column| {
        let data = match kind {
            Kind::U64 => DataType::UInt64,
            Kind::I64 => DataType::Int64,
            Kind::U32 => DataType::UInt32,
            Kind::U16 => DataType::UInt16,
            Kind::I32 => DataType::Int32,
            Kind::I16 => DataType::Int16,
            Kind::Short(_) | Kind::Bool | Kind::Text => {
                DataType::FixedSizeBinary(i32::try_from(width(*kind)).unwrap_or(0))
            }
        };
        Field::new(*name, data, false)
    };
    let names: Vec<&str> = columns.iter().map(|(name, ..)| *name).collect();
    let metadata = HashMap::from([
        (SCHEMA_KEY.to_owned(), SCHEMA.to_owned()),
        (COLUMNS_KEY.to_owned(), names.join(",")),
    ]);
    let fields: Vec<Field> = columns.iter().map(field).collect();
    Arc::new(Schema::new_with_metadata(fields, metadata))
}

/// The rows as batches of a stream.
pub(super) fn batches(batch: &Batch, schema: &SchemaRef) -> Result<Vec<RecordBatch>, ArrowError> {
    let columns = batch.columns.iter().zip(&batch.values);
    let arrays = columns.map(|((_, kind, _), values)| array(*kind, values, batch.rows));
    let whole = RecordBatch::try_new(schema.clone(), arrays.collect::<Result<Vec<_>, _>>()?)?;
    let pieces = (0..batch.rows).step_by(BATCH_ROWS);
    Ok(pieces
        .map(|from| whole.slice(from, BATCH_ROWS.min(batch.rows - from)))
        .collect())
}

fn array(kind: Kind, values: &[u8], rows: usize) -> Result<ArrayRef, ArrowError> {
    // copied to where numbers may lie
    let buffer = Buffer::from_slice_ref(values);
    fn numbers<T: ArrowPrimitiveType>(buffer: Buffer, rows: usize) -> ArrayRef {
        Arc::new(PrimitiveArray::<T>::new(
            ScalarBuffer::new(buffer, 0, rows),
            None,
        ))
    }
    Ok(match kind {
        Kind::U64 => numbers::<UInt64Type>(buffer, rows),
        Kind::I64 => numbers::<Int64Type>(buffer, rows),
        Kind::U32 => numbers::<UInt32Type>(buffer, rows),
        Kind::U16 => numbers::<UInt16Type>(buffer, rows),
        Kind::I32 => numbers::<Int32Type>(buffer, rows),
        Kind::I16 => numbers::<Int16Type>(buffer, rows),
        Kind::Short(_) | Kind::Bool | Kind::Text => {
            let width = i32::try_from(width(kind)).unwrap_or(0);
            Arc::new(FixedSizeBinaryArray::try_new(width, buffer, None)?)
        }
    })
}

fn widths(columns: &[Column]) -> Vec<u64> {
    let width = |(_, kind, _): &Column| width(*kind) as u64;
    columns.iter().map(width).collect()
}

/// Finds the whole batches by their headers.
pub(in super::super) fn extent(file: &File, family: Family) -> io::Result<Extent> {
    let widths = widths(family.columns());
    extent_of(file, &shape(&widths))
}

fn shape(widths: &[u64]) -> Shape<'_> {
    Shape {
        widths,
        dictionaries: &[],
        key: COLUMNS_KEY,
    }
}

/// Hands over the rows of the first `bytes` bytes, as [`extent`] found them, a batch at a time. Ends with `each`'s error.
pub(super) fn for_each<E: From<io::Error>>(
    file: &File,
    bytes: u64,
    columns: &'static [Column],
    mut each: impl FnMut(&Batch) -> Result<(), E>,
) -> Result<(), E> {
    let widths = widths(columns);
    let mut at = 0;
    let mut body = Vec::new();
    let mut batch = Batch::new(columns);
    while let Some(Message {
        kind,
        body_at,
        body_len,
        next,
    }) = message(file, at, bytes, &shape(&widths))?
    {
        at = next;
        match kind {
            tail_frame::Kind::Rows(layout) => {
                // Grows to the largest body, which is checked to be in the file.
                body.resize(body_len, 0);
                file.read_exact_at(&mut body, body_at)?;
                batch.clear();
                batch.rows = layout.rows;
                let places = layout.columns.iter().zip(columns);
                for (values, (&from, (_, kind, _))) in batch.values.iter_mut().zip(places) {
                    let to = from.saturating_add(layout.rows.saturating_mul(width(*kind)));
                    values.extend_from_slice(body.get(from..to).unwrap_or_default());
                }
                each(&batch)?;
            }
            tail_frame::Kind::End => break,
            tail_frame::Kind::Schema(_) | tail_frame::Kind::Dictionary(..) => {}
        }
    }
    Ok(())
}
