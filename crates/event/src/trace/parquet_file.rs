//! The outside of a Parquet file: its footer, checked before anything is believed, and its pages, guarded.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use parquet::column::reader::ColumnReaderImpl;
use parquet::data_type::DataType;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData};
use parquet::file::serialized_reader::SerializedPageReader;

use super::TraceError;
use super::catch_panic::catch_quietly;
use super::error::open_regular_file;
use super::parquet_guard::{GuardedFile, GuardedPages};
use super::parquet_schema::ColumnSpec;
use super::schema::{SCHEMA_KEY, TRACE_SCHEMA};

/// A longer footer is refused; ours take some 50,000 bytes.
const MAX_FOOTER_BYTES: u32 = 256 << 10;
/// The library reads a schema by recursion, as deep as a garbled footer says: every level takes 6
/// bytes there and less than 1,000 of stack, and more in a library that is built without optimisation. The kernel
/// gives memory only to what of a stack is used.
const FOOTER_STACK_BYTES: usize = if cfg!(debug_assertions) {
    512 << 20
} else {
    64 << 20
};
/// A row group of more rows is refused.
const MAX_GROUP_ROWS: i64 = 1 << 22;

const PARQUET_MAGIC: &[u8; 4] = b"PAR1";

/// Turns an error of the library, or its panic, into a damaged file.
pub(super) fn damaged_if_garbled<T>(
    path: &Path,
    result: Option<Result<T>>,
) -> std::result::Result<T, TraceError> {
    match result {
        Some(result) => result.map_err(|err| match err {
            ParquetError::General(text) | ParquetError::EOF(text) => {
                TraceError::damaged(path, text)
            }
            err => TraceError::damaged(path, err),
        }),
        None => Err(TraceError::damaged(path, "a page is garbled")),
    }
}

/// The columns of a row group.
pub(super) struct GroupColumns<'a> {
    pub(super) file: &'a Arc<GuardedFile>,
    pub(super) group: &'a RowGroupMetaData,
}

impl GroupColumns<'_> {
    /// The reader of a column.
    pub(super) fn open_column<T: DataType>(&self, column: usize) -> Result<ColumnReaderImpl<T>> {
        let rows = usize::try_from(self.group.num_rows()).unwrap_or(0);
        let column = self.group.column(column);
        let pages = SerializedPageReader::new(Arc::clone(self.file), column, rows, None)?;
        Ok(ColumnReaderImpl::new(
            column.column_descr_ptr(),
            Box::new(GuardedPages(pages)),
        ))
    }
}

/// Opens a sealed file, and returns it with what its end says of it, once that is whole and has these columns. Pages are checked when they are
/// read.
pub(super) fn open_parquet(
    path: &Path,
    columns: &'static [ColumnSpec],
) -> std::result::Result<(GuardedFile, ParquetMetaData), TraceError> {
    let unreadable = |err| TraceError::unreadable(path, err);
    let file = open_regular_file(path).map_err(unreadable)?;
    let len = file.metadata().map_err(unreadable)?.len();
    let mut end = [0; 8];
    if len < 12 {
        return Err(TraceError::damaged(
            path,
            "cut short: too short for a Parquet file",
        ));
    }
    file.read_exact_at(&mut end, len - 8).map_err(unreadable)?;
    let [a, b, c, d, magic @ ..] = end;
    if magic != *PARQUET_MAGIC {
        return Err(TraceError::damaged(
            path,
            "cut short, or not a Parquet file: its end is missing",
        ));
    }
    let footer_len = u32::from_le_bytes([a, b, c, d]);
    if footer_len > MAX_FOOTER_BYTES || u64::from(footer_len) > len - 12 {
        return Err(TraceError::damaged(
            path,
            "not a file of quell's: its footer is too long",
        ));
    }
    let mut footer = vec![0; footer_len as usize];
    file.read_exact_at(&mut footer, len - 8 - u64::from(footer_len))
        .map_err(unreadable)?;
    let footer = decode_footer(path, footer, columns)?;
    Ok((GuardedFile::new(Arc::new(file), len), footer))
}

/// Decodes a footer on a thread of its own, whose stack is deep enough for any schema in it.
fn decode_footer(
    path: &Path,
    footer: Vec<u8>,
    columns: &'static [ColumnSpec],
) -> std::result::Result<ParquetMetaData, TraceError> {
    let decode = move || {
        catch_quietly(|| {
            let footer = ParquetMetaDataReader::decode_metadata(&footer)?;
            check_footer(&footer, columns)?;
            Ok(footer)
        })
    };
    let thread = std::thread::Builder::new()
        .stack_size(FOOTER_STACK_BYTES)
        .spawn(decode);
    let thread = thread.map_err(|err| TraceError::unreadable(path, err))?;
    damaged_if_garbled(path, thread.join().unwrap_or_default())
}

/// Refuses a footer that has other columns than these, or says something impossible of them.
fn check_footer(footer: &ParquetMetaData, expected: &[ColumnSpec]) -> Result<()> {
    let refuse = |why: &str| Err(ParquetError::General(why.to_owned()));
    let file = footer.file_metadata();
    let version = file
        .key_value_metadata()
        .and_then(|all| all.iter().find(|kv| kv.key == SCHEMA_KEY))
        .and_then(|kv| kv.value.as_deref());
    match version {
        Some(TRACE_SCHEMA) => {}
        Some(_) => return refuse("of another schema than its trace"),
        None => return refuse("a Parquet file that quell did not write"),
    }
    let columns = file.schema_descr().columns();
    let ours = columns.iter().zip(expected).all(|(c, (name, kind, _))| {
        c.path().parts().len() == 1
            && c.name() == *name
            && c.physical_type() == kind.physical_type()
            && c.max_def_level() == 0
            && c.max_rep_level() == 0
    });
    if columns.len() != expected.len() || !ours {
        return refuse("has other columns than a trace");
    }
    for group in footer.row_groups() {
        let types = group
            .columns()
            .iter()
            .zip(expected)
            .all(|(c, (_, kind, _))| {
                c.column_type() == kind.physical_type()
                    && c.column_descr().physical_type() == c.column_type()
            });
        let rows = (0..=MAX_GROUP_ROWS).contains(&group.num_rows());
        if group.num_columns() != expected.len() || !types || !rows {
            return refuse("its footer is garbled");
        }
    }
    Ok(())
}
