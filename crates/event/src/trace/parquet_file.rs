//! The outside of a Parquet file: its footer, checked before anything is believed, and its pages, guarded.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use parquet::column::reader::ColumnReaderImpl;
use parquet::data_type::DataType;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData};
use parquet::file::serialized_reader::SerializedPageReader;

use super::parquet_guard::{GuardedFile, GuardedPages};
use super::parquet_schema::{Column, SCHEMA_KEY};
use super::quiet::calm;
use super::{Error, SCHEMA};

/// No footer is longer, bytes; ours are some 50,000.
const FOOTER_CAP: u32 = 256 << 10;
/// The library reads a schema by recursion, as deep as a garbled footer says: every level takes 6
/// bytes there and less than 1,000 of stack.
const FOOTER_STACK: usize = 64 << 20;
/// No row group has more rows.
const GROUP_ROWS_CAP: i64 = 1 << 22;

const END: &[u8; 4] = b"PAR1";

/// What the library said, or that it panicked.
pub(super) fn garbled<T>(path: &Path, result: Option<Result<T>>) -> std::result::Result<T, Error> {
    match result {
        Some(result) => result.map_err(|err| match err {
            ParquetError::General(text) | ParquetError::EOF(text) => Error::damaged(path, text),
            err => Error::damaged(path, err),
        }),
        None => Err(Error::damaged(path, "a page is garbled")),
    }
}

/// The columns of a row group.
pub(super) struct Columns<'a> {
    pub(super) file: &'a Arc<GuardedFile>,
    pub(super) group: &'a RowGroupMetaData,
}

impl Columns<'_> {
    /// The reader of a column.
    pub(super) fn open<T: DataType>(&self, column: usize) -> Result<ColumnReaderImpl<T>> {
        let rows = usize::try_from(self.group.num_rows()).unwrap_or(0);
        let column = self.group.column(column);
        let pages = SerializedPageReader::new(Arc::clone(self.file), column, rows, None)?;
        Ok(ColumnReaderImpl::new(
            column.column_descr_ptr(),
            Box::new(GuardedPages(pages)),
        ))
    }
}

/// Checks that the file is whole, and that it has these columns.
pub(super) fn open(
    path: &Path,
    columns: &'static [Column],
) -> std::result::Result<(GuardedFile, ParquetMetaData), Error> {
    let unreadable = |err| Error::unreadable(path, err);
    let file = super::error::open(path).map_err(unreadable)?;
    let len = file.metadata().map_err(unreadable)?.len();
    let mut end = [0; 8];
    if len < 12 {
        return Err(Error::damaged(
            path,
            "cut short: too short for a Parquet file",
        ));
    }
    file.read_exact_at(&mut end, len - 8).map_err(unreadable)?;
    let [a, b, c, d, magic @ ..] = end;
    if magic != *END {
        return Err(Error::damaged(
            path,
            "cut short, or not a Parquet file: its end is missing",
        ));
    }
    let footer_len = u32::from_le_bytes([a, b, c, d]);
    if footer_len > FOOTER_CAP || u64::from(footer_len) > len - 12 {
        return Err(Error::damaged(
            path,
            "not a file of quell's: its footer is too long",
        ));
    }
    let mut footer = vec![0; footer_len as usize];
    file.read_exact_at(&mut footer, len - 8 - u64::from(footer_len))
        .map_err(unreadable)?;
    let footer = decode(path, footer, columns)?;
    Ok((GuardedFile::new(Arc::new(file), len), footer))
}

/// On a thread of its own, whose stack holds whatever the footer says.
fn decode(
    path: &Path,
    footer: Vec<u8>,
    columns: &'static [Column],
) -> std::result::Result<ParquetMetaData, Error> {
    let decode = move || {
        calm(|| {
            let footer = ParquetMetaDataReader::decode_metadata(&footer)?;
            check(&footer, columns)?;
            Ok(footer)
        })
    };
    let thread = std::thread::Builder::new()
        .stack_size(FOOTER_STACK)
        .spawn(decode);
    let thread = thread.map_err(|err| Error::unreadable(path, err))?;
    garbled(path, thread.join().unwrap_or_default())
}

/// Are these our columns, and is what is said of them possible?
fn check(footer: &ParquetMetaData, expected: &[Column]) -> Result<()> {
    let refuse = |why: &str| Err(ParquetError::General(why.to_owned()));
    let file = footer.file_metadata();
    let version = file
        .key_value_metadata()
        .and_then(|all| all.iter().find(|kv| kv.key == SCHEMA_KEY))
        .and_then(|kv| kv.value.as_deref());
    match version {
        Some(SCHEMA) => {}
        Some(_) => return refuse("of another schema than its trace"),
        None => return refuse("a Parquet file that quell did not write"),
    }
    let columns = file.schema_descr().columns();
    let ours = columns.iter().zip(expected).all(|(c, (name, kind, _))| {
        c.path().parts().len() == 1
            && c.name() == *name
            && c.physical_type() == kind.physical()
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
                c.column_type() == kind.physical()
                    && c.column_descr().physical_type() == c.column_type()
            });
        let rows = (0..=GROUP_ROWS_CAP).contains(&group.num_rows());
        if group.num_columns() != expected.len() || !types || !rows {
            return refuse("its footer is garbled");
        }
    }
    Ok(())
}
