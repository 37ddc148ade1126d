//! The columns of each table of rows.

use super::file_names::TableFamily;
use super::parquet_schema::ColumnSpec;
use super::{event_batch, sample_row, wait_row};

/// Returns the columns of a table. [`TableFamily`] does not hold them, because each file that declares columns names its family.
pub(super) fn columns_of(family: TableFamily) -> &'static [ColumnSpec] {
    match family {
        TableFamily::Events => event_batch::EVENT_COLUMNS,
        TableFamily::Waits => wait_row::WAIT_COLUMNS,
        TableFamily::Samples => sample_row::SAMPLE_COLUMNS,
    }
}
