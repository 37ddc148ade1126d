//! Reading a sealed segment.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::column::reader::ColumnReaderImpl;
use parquet::data_type::DataType;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData};
use parquet::file::serialized_reader::SerializedPageReader;

use super::cause_memo::CauseMemo;
use super::parquet_batch::{Batch, COLUMNS, Need, Open, Readers};
use super::parquet_guard::{GuardedFile, GuardedPages};
use super::parquet_schema::SCHEMA_KEY;
use super::quiet::calm;
use super::row::Row;
use super::{Error, SCHEMA};

/// Rows that are unpacked at a time: few enough to be in a CPU's cache still when they are asked for.
const BATCH_ROWS: usize = 1 << 12;
/// No footer is longer, bytes; ours are some 50,000.
const FOOTER_CAP: u32 = 256 << 10;
/// The library reads a schema by recursion, as deep as a garbled footer says: every level takes 6
/// bytes there and less than 1,000 of stack.
const FOOTER_STACK: usize = 64 << 20;
/// No row group has more rows.
const GROUP_ROWS_CAP: i64 = 1 << 22;

const END: &[u8; 4] = b"PAR1";

/// A sealed segment.
#[derive(Debug)]
pub(super) struct Sealed {
    path: PathBuf,
    pub(super) rows: u64,
    /// Row groups: each can be read without the others.
    pub(super) groups: usize,
}

/// A sealed segment whose row groups are being read.
pub(super) struct Groups<'a> {
    path: &'a Path,
    file: Arc<GuardedFile>,
    footer: ParquetMetaData,
    need: Need,
    batch: Batch,
    causes: CauseMemo,
}

impl Sealed {
    /// Checks that the file is whole and ours.
    pub(super) fn open(path: &Path) -> std::result::Result<Self, Error> {
        let (_, footer) = open(path)?;
        let rows = footer
            .row_groups()
            .iter()
            .map(|g| g.num_rows().cast_unsigned())
            .sum();
        Ok(Self {
            path: path.to_owned(),
            rows,
            groups: footer.num_row_groups(),
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens it for reading.
    pub(super) fn groups(&self, need: Need) -> std::result::Result<Groups<'_>, Error> {
        let (file, footer) = open(&self.path)?;
        Ok(Groups {
            path: &self.path,
            file: Arc::new(file),
            footer,
            need,
            batch: Batch::default(),
            causes: CauseMemo::default(),
        })
    }

    /// Hands over every row.
    pub(super) fn for_each(&self, mut each: impl FnMut(&Row)) -> std::result::Result<(), Error> {
        let mut groups = self.groups(Need::Rows)?;
        (0..groups.footer.num_row_groups()).try_for_each(|n| groups.for_each(n, &mut each))
    }
}

impl Groups<'_> {
    /// Hands over every row of one row group.
    pub(super) fn for_each(
        &mut self,
        group: usize,
        mut each: impl FnMut(&Row),
    ) -> std::result::Result<(), Error> {
        let Some(group) = self.footer.row_groups().get(group) else {
            return Err(Error::damaged(self.path, "a row group has gone"));
        };
        let columns = Columns {
            file: &self.file,
            group,
        };
        let open = || Readers::open(&columns, self.need);
        let mut readers = garbled(self.path, calm(open))?;
        let mut left = usize::try_from(group.num_rows()).unwrap_or(0);
        while left > 0 {
            let rows = left.min(BATCH_ROWS);
            garbled(self.path, calm(|| readers.read(rows, &mut self.batch)))?;
            self.batch.for_each(&mut self.causes, &mut each);
            left -= rows;
        }
        Ok(())
    }
}

/// What the library said, or that it panicked.
fn garbled<T>(path: &Path, result: Option<Result<T>>) -> std::result::Result<T, Error> {
    match result {
        Some(result) => result.map_err(|err| match err {
            ParquetError::General(text) | ParquetError::EOF(text) => Error::damaged(path, text),
            err => Error::damaged(path, err),
        }),
        None => Err(Error::damaged(path, "a page is garbled")),
    }
}

/// The columns of a row group.
struct Columns<'a> {
    file: &'a Arc<GuardedFile>,
    group: &'a RowGroupMetaData,
}

impl Open for Columns<'_> {
    fn open<T: DataType>(&self, column: usize) -> Result<ColumnReaderImpl<T>> {
        let rows = usize::try_from(self.group.num_rows()).unwrap_or(0);
        let column = self.group.column(column);
        let pages = SerializedPageReader::new(Arc::clone(self.file), column, rows, None)?;
        Ok(ColumnReaderImpl::new(
            column.column_descr_ptr(),
            Box::new(GuardedPages(pages)),
        ))
    }
}

fn open(path: &Path) -> std::result::Result<(GuardedFile, ParquetMetaData), Error> {
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
    let footer = decode(path, footer)?;
    Ok((GuardedFile::new(Arc::new(file), len), footer))
}

/// On a thread of its own, whose stack holds whatever the footer says.
fn decode(path: &Path, footer: Vec<u8>) -> std::result::Result<ParquetMetaData, Error> {
    let decode = move || {
        calm(|| {
            let footer = ParquetMetaDataReader::decode_metadata(&footer)?;
            check(&footer)?;
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
fn check(footer: &ParquetMetaData) -> Result<()> {
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
    let ours = columns.iter().zip(COLUMNS).all(|(c, (name, kind, _))| {
        c.path().parts().len() == 1
            && c.name() == *name
            && c.physical_type() == kind.physical()
            && c.max_def_level() == 0
            && c.max_rep_level() == 0
    });
    if columns.len() != COLUMNS.len() || !ours {
        return refuse("has other columns than a trace");
    }
    for group in footer.row_groups() {
        let types = group
            .columns()
            .iter()
            .zip(COLUMNS)
            .all(|(c, (_, kind, _))| {
                c.column_type() == kind.physical()
                    && c.column_descr().physical_type() == c.column_type()
            });
        let rows = (0..=GROUP_ROWS_CAP).contains(&group.num_rows());
        if group.num_columns() != COLUMNS.len() || !types || !rows {
            return refuse("its footer is garbled");
        }
    }
    Ok(())
}
