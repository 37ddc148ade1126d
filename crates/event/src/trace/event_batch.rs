//! Rows as Parquet's typed columns, for writing and reading.

use std::collections::HashMap;
use std::io::Write;

use parquet::column::reader::ColumnReaderImpl;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::writer::SerializedRowGroupWriter;

use super::cause_memo::CauseMemo;
use super::comm::comm_from_bytes;
use super::event_row::EventRow;
use super::parquet_file::GroupColumns;
use super::parquet_schema::{ColumnKind, ColumnPacking, ColumnSpec};
use crate::{Cause, Comm};

/// The readers that need a column. To unpack one costs more than to sum it up, so a reader leaves out the columns that it doesn't need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ColumnNeed {
    /// All readers need it, also those that only sum rows up.
    Sums,
    /// Readers of whole rows need it.
    Rows,
    /// Only SQL over the files needs it; here it follows from other columns.
    Queries,
}

/// Declares every column once: the vectors, how they are written, and how they are read. A line has the name, Parquet's type, the type of
/// the values ([`ColumnKind`]), how they are packed ([`ColumnPacking`]), and who reads them ([`ColumnNeed`]). The order is that in the file.
macro_rules! columns {
    ($($field:ident: $ty:ident, $kind:ident, $packing:ident, $need:ident;)+) => {
        /// Name, meaning and packing of each column, in order.
        pub(super) const EVENT_COLUMNS: &[ColumnSpec] =
            &[$((stringify!($field), ColumnKind::$kind, ColumnPacking::$packing),)+];

        /// Some rows; one entry a row in each vector.
        #[derive(Default)]
        pub(super) struct EventBatch {
            $($field: Vec<<$ty as DataType>::T>,)+
        }

        impl EventBatch {
            pub(super) fn clear(&mut self) {
                $(self.$field.clear();)+
            }

            /// Writes all rows as one row group.
            pub(super) fn write_row_group<W: Write + Send>(
                &self,
                mut group: SerializedRowGroupWriter<'_, W>,
            ) -> Result<()> {
                $(
                    let mut column = group.next_column()?.ok_or_else(too_few_columns)?;
                    column.typed::<$ty>().write_batch(&self.$field, None, None)?;
                    column.close()?;
                )+
                group.close()?;
                Ok(())
            }
        }

        /// One reader a column.
        pub(super) struct EventReaders {
            $($field: Option<ColumnReaderImpl<$ty>>,)+
        }

        impl EventReaders {
            /// `open` is called with the number of each column that is needed.
            pub(super) fn open(open: &GroupColumns<'_>, need: ColumnNeed) -> Result<Self> {
                let mut next = 0..;
                let mut number = || next.next().unwrap_or_default();
                Ok(Self { $($field: {
                    let number = number();
                    if ColumnNeed::$need <= need { Some(open.open_column::<$ty>(number)?) } else { None }
                },)+ })
            }

            /// Reads exactly `rows` rows in place of those in `batch`. Columns that are not needed are
            /// as long, of zeros.
            pub(super) fn read_rows(&mut self, rows: usize, batch: &mut EventBatch) -> Result<()> {
                $(
                    if let Some(reader) = &mut self.$field {
                        batch.$field.clear();
                        reader.read_records(rows, None, None, &mut batch.$field)?;
                        if batch.$field.len() != rows {
                            return Err(ParquetError::EOF(
                                concat!("column ", stringify!($field), " ends early").into()));
                        }
                    } else {
                        batch.$field.resize(rows, Default::default());
                    }
                )+
                Ok(())
            }
        }

        /// Names of text that not every reader needs: there is none, for text has no zero.
        #[cfg(test)]
        fn text_left_out() -> Vec<&'static str> {
            let all = [$((stringify!($field), ColumnKind::$kind, ColumnNeed::$need),)+];
            let text = all.into_iter().filter(|(_, kind, _)| matches!(kind, ColumnKind::Text));
            text.filter(|(_, _, need)| *need != ColumnNeed::Sums).map(|(name, _, _)| name).collect()
        }
    };
}

columns! {
    id: Int64Type, U64, Delta, Rows;
    victim_index: Int32Type, U16, Dictionary, Sums;
    t_ns: Int64Type, I64, Delta, Sums;
    wait_ns: Int64Type, I64, Delta, Sums;
    cause: ByteArrayType, Text, Dictionary, Sums;
    syscall: Int32Type, I16, Dictionary, Rows;
    pid: Int32Type, U32, Dictionary, Sums;
    tid: Int32Type, U32, Dictionary, Sums;
    comm: ByteArrayType, Text, Dictionary, Sums;
    cpu: Int32Type, U16, Dictionary, Rows;
    cgroup: Int64Type, U64, Dictionary, Sums;
    start: Int64Type, U64, Dictionary, Sums;
    end: Int64Type, U64, Dictionary, Sums;
    full: BoolType, Bool, Plain, Queries;
    pages: Int64Type, U64, Dictionary, Queries;
    own_mm: BoolType, Bool, Plain, Sums;
    kernel_stack: Int32Type, I32, Dictionary, Rows;
    user_stack: Int32Type, I32, Dictionary, Sums;
    victim_cpu: Int32Type, U16, Dictionary, Sums;
    victim_pid: Int32Type, U32, Dictionary, Sums;
    victim_tid: Int32Type, U32, Dictionary, Rows;
    victim_comm: ByteArrayType, Text, Dictionary, Sums;
    bystander: BoolType, Bool, Plain, Sums;
    delay_ns: Int32Type, U32, Delta, Sums;
    stall_ns: Int32Type, U32, Delta, Sums;
}

fn too_few_columns() -> ParquetError {
    ParquetError::General("the schema has too few columns".into())
}

/// Text that was turned into Parquet's kind before: few names make up millions of rows.
pub(super) struct TextCache {
    comms: HashMap<Comm, ByteArray>,
    /// By number.
    causes: Vec<ByteArray>,
    /// The last names of a culprit and of a victim, which mostly come again.
    last: [(Comm, ByteArray); 2],
}

/// So many names of threads are remembered; where there are more, all are forgotten and made again.
const MAX_CACHED_COMMS: usize = 1 << 16;

const CULPRIT_SLOT: usize = 0;
const VICTIM_SLOT: usize = 1;

impl Default for TextCache {
    fn default() -> Self {
        let nobody = (Comm::default(), ByteArray::from(""));
        Self {
            comms: HashMap::new(),
            causes: Cause::ALL.map(|c| c.name().into()).to_vec(),
            last: [nobody.clone(), nobody],
        }
    }
}

impl TextCache {
    fn cached_comm(&mut self, comm: Comm, whose: usize) -> ByteArray {
        if self.last[whose].0 != comm {
            if self.comms.len() > MAX_CACHED_COMMS {
                self.comms.clear();
            }
            let text = |c: &Comm| ByteArray::from(c.as_text().as_ref());
            self.last[whose] = (
                comm,
                self.comms.entry(comm).or_insert_with_key(text).clone(),
            );
        }
        self.last[whose].1.clone()
    }
}

impl EventBatch {
    pub(super) fn row_count(&self) -> usize {
        self.id.len()
    }

    /// Adds a row. Numbers without a sign keep their bits, as Parquet has it.
    pub(super) fn push_row(&mut self, r: &EventRow, texts: &mut TextCache) {
        self.id.push(r.id.cast_signed());
        self.victim_index.push(r.victim_index.into());
        self.t_ns.push(i64::try_from(r.t_ns).unwrap_or(i64::MAX));
        self.wait_ns
            .push(i64::try_from(r.wait_ns).unwrap_or(i64::MAX));
        self.cause.push(texts.causes[r.cause as usize].clone());
        self.syscall.push(r.syscall.into());
        self.pid.push(r.pid.cast_signed());
        self.tid.push(r.tid.cast_signed());
        self.comm.push(texts.cached_comm(r.comm, CULPRIT_SLOT));
        self.cpu.push(r.cpu.into());
        self.cgroup.push(r.cgroup.cast_signed());
        self.start.push(r.start.cast_signed());
        self.end.push(r.end.cast_signed());
        self.full.push(r.is_full());
        self.pages.push(r.page_count().cast_signed());
        self.own_mm.push(r.own_mm);
        self.kernel_stack.push(r.kernel_stack);
        self.user_stack.push(r.user_stack);
        self.victim_cpu.push(r.victim_cpu.into());
        self.victim_pid.push(r.victim_pid.cast_signed());
        self.victim_tid.push(r.victim_tid.cast_signed());
        self.victim_comm
            .push(texts.cached_comm(r.victim_comm, VICTIM_SLOT));
        self.bystander.push(r.bystander);
        self.delay_ns.push(r.delay_ns.cast_signed());
        self.stall_ns.push(r.stall_ns.cast_signed());
    }

    /// Hands over every row. `full` and `pages` follow from the range and are not looked at.
    pub(super) fn for_each_row(&self, causes: &mut CauseMemo, each: &mut impl FnMut(&EventRow)) {
        for i in 0..self.row_count() {
            each(&EventRow {
                id: self.id[i].cast_unsigned(),
                victim_index: self.victim_index[i] as u16,
                t_ns: self.t_ns[i].cast_unsigned(),
                wait_ns: self.wait_ns[i].cast_unsigned(),
                cause: causes.cause_of(&self.cause[i]),
                syscall: self.syscall[i] as i16,
                pid: self.pid[i].cast_unsigned(),
                tid: self.tid[i].cast_unsigned(),
                comm: comm_from_bytes(self.comm[i].data()),
                cpu: self.cpu[i] as u16,
                cgroup: self.cgroup[i].cast_unsigned(),
                start: self.start[i].cast_unsigned(),
                end: self.end[i].cast_unsigned(),
                own_mm: self.own_mm[i],
                kernel_stack: self.kernel_stack[i],
                user_stack: self.user_stack[i],
                victim_cpu: self.victim_cpu[i] as u16,
                victim_pid: self.victim_pid[i].cast_unsigned(),
                victim_tid: self.victim_tid[i].cast_unsigned(),
                victim_comm: comm_from_bytes(self.victim_comm[i].data()),
                bystander: self.bystander[i],
                delay_ns: self.delay_ns[i].cast_unsigned(),
                stall_ns: self.stall_ns[i].cast_unsigned(),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    /// Check that every reader has all text: what is left out is zero, and text without bytes can't be asked.
    #[test]
    fn text_is_always_read() {
        assert!(super::text_left_out().is_empty());
    }
}
