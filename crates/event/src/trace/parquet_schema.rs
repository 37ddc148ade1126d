//! How columns are kept in Parquet.

use std::sync::Arc;

use parquet::basic::{Compression, Encoding, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::errors::Result;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::schema::types::{ColumnPath, Type, TypePtr};

use super::schema::{SCHEMA_KEY, TRACE_SCHEMA};

/// The type of a column's values.
#[derive(Clone, Copy, Debug)]
pub(super) enum ColumnKind {
    U64,
    /// Times: signed, so that differences in SQL can be negative.
    I64,
    U32,
    U16,
    I32,
    I16,
    Bool,
    Text,
    /// Text of no more bytes than this.
    Short(u8),
}

/// The encoding that makes a column small.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ColumnPacking {
    /// Few different values, or the same ones again soon.
    Dictionary,
    /// Close to the value before, or of a narrow range.
    Delta,
    /// A bit each.
    Plain,
}

impl ColumnKind {
    pub(super) fn physical_type(self) -> Physical {
        match self {
            Self::U64 | Self::I64 => Physical::INT64,
            Self::U32 | Self::U16 | Self::I32 | Self::I16 => Physical::INT32,
            Self::Bool => Physical::BOOLEAN,
            Self::Text | Self::Short(_) => Physical::BYTE_ARRAY,
        }
    }

    fn logical_type(self) -> Option<LogicalType> {
        match self {
            Self::U64 => Some(LogicalType::integer(64, false)),
            Self::U32 => Some(LogicalType::integer(32, false)),
            Self::U16 => Some(LogicalType::integer(16, false)),
            Self::I16 => Some(LogicalType::integer(16, true)),
            Self::Text | Self::Short(_) => Some(LogicalType::String),
            Self::I64 | Self::I32 | Self::Bool => None,
        }
    }
}

/// A column's name, type and packing.
pub(super) type ColumnSpec = (&'static str, ColumnKind, ColumnPacking);

/// Returns the schema of a file with these columns, in which no value is ever missing.
pub(super) fn parquet_schema(columns: &[ColumnSpec]) -> Result<TypePtr> {
    let column = |&(name, kind, _): &ColumnSpec| -> Result<TypePtr> {
        let column = Type::primitive_type_builder(name, kind.physical_type())
            .with_repetition(Repetition::REQUIRED)
            .with_logical_type(kind.logical_type());
        Ok(Arc::new(column.build()?))
    };
    let columns = columns.iter().map(column).collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(
        Type::group_type_builder("quell")
            .with_fields(columns)
            .build()?,
    ))
}

/// Queries narrow down by these columns, so their least and largest values are kept. Others have none, because keeping them takes time.
const STATISTICS_COLUMNS: [&str; 7] = [
    "id",
    "t_ns",
    "cause",
    "mechanism",
    "pid",
    "tid",
    "victim_pid",
];

/// Returns how files are written: with old pages and encodings that every reader knows, and with statistics for whole row groups
/// only, because those of smaller parts are worth less than they take.
pub(super) fn writer_properties(columns: &[ColumnSpec]) -> Result<WriterProperties> {
    let mut properties = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_1_0)
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
        .set_statistics_enabled(EnabledStatistics::None)
        .set_offset_index_disabled(true)
        .set_created_by(format!("quell {}", env!("CARGO_PKG_VERSION")))
        .set_key_value_metadata(Some(vec![KeyValue::new(
            SCHEMA_KEY.into(),
            TRACE_SCHEMA.to_owned(),
        )]))
        .set_dictionary_enabled(true);
    for (name, _, packing) in columns {
        let path = ColumnPath::from(*name);
        if STATISTICS_COLUMNS.contains(name) {
            properties =
                properties.set_column_statistics_enabled(path.clone(), EnabledStatistics::Chunk);
        }
        if *packing == ColumnPacking::Dictionary {
            continue;
        }
        properties = properties.set_column_dictionary_enabled(path.clone(), false);
        if *packing == ColumnPacking::Delta {
            properties = properties.set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
        }
    }
    Ok(properties.build())
}
