//! Creating Parquet files, and their errors: the tables of events and the flat tables share it.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use parquet::errors::ParquetError;
use parquet::file::writer::SerializedFileWriter;

use super::parquet_schema::{ColumnSpec, parquet_schema, writer_properties};

/// DuckDB works on so many rows at a time; a row group of them takes some 20 MB here.
pub(super) const ROWS_PER_GROUP: usize = 122_880;

/// Creates a file for rows of these columns.
pub(super) fn create_file(
    path: &Path,
    columns: &[ColumnSpec],
) -> io::Result<SerializedFileWriter<File>> {
    let properties = Arc::new(writer_properties(columns).map_err(io_error)?);
    let schema = parquet_schema(columns).map_err(io_error)?;
    SerializedFileWriter::new(File::create(path)?, schema, properties).map_err(io_error)
}

/// Returns the system's error, where there is one, so that the caller can tell a full disk.
pub(super) fn io_error(err: ParquetError) -> io::Error {
    match err {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(err) => *err,
            Err(inner) => io::Error::other(inner),
        },
        err => io::Error::other(err),
    }
}
