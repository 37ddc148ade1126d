//! How columns are kept in Parquet.

use std::sync::Arc;

use parquet::basic::{Compression, Encoding, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::errors::Result;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::schema::types::{ColumnPath, Type, TypePtr};

use super::SCHEMA;

/// Key in the file's metadata: the trace's schema. A file without it is not ours.
pub(super) const SCHEMA_KEY: &str = "quell.schema";

/// The meaning of a column's values.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
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

/// What makes a column small.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Packing {
    /// Few different values, or the same ones again soon.
    Dictionary,
    /// Close to the value before, or of a narrow range.
    Delta,
    /// A bit each.
    Plain,
}

impl Kind {
    pub(super) fn physical(self) -> Physical {
        match self {
            Self::U64 | Self::I64 => Physical::INT64,
            Self::U32 | Self::U16 | Self::I32 | Self::I16 => Physical::INT32,
            Self::Bool => Physical::BOOLEAN,
            Self::Text | Self::Short(_) => Physical::BYTE_ARRAY,
        }
    }

    fn logical(self) -> Option<LogicalType> {
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

/// Name, meaning and packing.
pub(super) type Column = (&'static str, Kind, Packing);

/// All columns; no value is ever missing.
pub(super) fn schema(columns: &[Column]) -> Result<TypePtr> {
    let column = |&(name, kind, _): &Column| -> Result<TypePtr> {
        let column = Type::primitive_type_builder(name, kind.physical())
            .with_repetition(Repetition::REQUIRED)
            .with_logical_type(kind.logical());
        Ok(Arc::new(column.build()?))
    };
    let columns = columns.iter().map(column).collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(
        Type::group_type_builder("quell")
            .with_fields(columns)
            .build()?,
    ))
}

/// Columns that queries narrow down by. Each takes time to keep the least and the largest of.
const STATISTICS: [&str; 7] = [
    "id",
    "t_ns",
    "cause",
    "mechanism",
    "pid",
    "tid",
    "victim_pid",
];

/// Old pages and encodings that every reader knows; statistics for whole row groups only, because
/// smaller ones are worth less than they take.
pub(super) fn properties(columns: &[Column]) -> Result<WriterProperties> {
    let mut properties = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_1_0)
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
        .set_statistics_enabled(EnabledStatistics::None)
        .set_offset_index_disabled(true)
        .set_created_by(format!("quell {}", env!("CARGO_PKG_VERSION")))
        .set_key_value_metadata(Some(vec![KeyValue::new(
            SCHEMA_KEY.into(),
            SCHEMA.to_owned(),
        )]))
        .set_dictionary_enabled(true);
    for (name, _, packing) in columns {
        let path = ColumnPath::from(*name);
        if STATISTICS.contains(name) {
            properties =
                properties.set_column_statistics_enabled(path.clone(), EnabledStatistics::Chunk);
        }
        if *packing == Packing::Dictionary {
            continue;
        }
        properties = properties.set_column_dictionary_enabled(path.clone(), false);
        if *packing == Packing::Delta {
            properties = properties.set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
        }
    }
    Ok(properties.build())
}
