//! One row of `samples`: where a CPU was at a tick.

use crate::account::MechanismPart;
use crate::{Comm, Mechanism, NO_STACK};

use super::comm::{comm_from_bytes, plain_comm};
use super::file_names::TableFamily;
use super::flat::{FlatRow, FlatRowReader, FlatRowWriter};
use super::parquet_schema::{ColumnKind, ColumnPacking, ColumnSpec};

/// A sample of memory management, or some that were of nothing of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleRow {
    /// When it was taken, or the first of them, ns of CLOCK_MONOTONIC.
    pub t_ns: u64,
    /// How many they are: 1 where it is of memory management.
    pub samples: u32,
    /// The CPU.
    pub cpu: u16,
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// The thread's name.
    pub comm: Comm,
    /// The work of the kernel; `None` where it was none of memory management, or where only a newer quell has a name for it.
    pub mechanism: Option<Mechanism>,
    /// The part of that work.
    pub part: MechanismPart,
    /// Number of the kernel stack, or [`NO_STACK`].
    pub kernel_stack: i32,
    /// Number of the user stack, or [`NO_STACK`].
    pub user_stack: i32,
}

impl Default for SampleRow {
    fn default() -> Self {
        Self {
            t_ns: 0,
            samples: 1,
            cpu: 0,
            pid: 0,
            tid: 0,
            comm: Comm::default(),
            mechanism: None,
            part: MechanismPart::Other,
            kernel_stack: NO_STACK,
            user_stack: NO_STACK,
        }
    }
}

/// The columns of this table, in the order in which rows put and take their values.
pub(super) const SAMPLE_COLUMNS: &[ColumnSpec] = &[
    ("t_ns", ColumnKind::I64, ColumnPacking::Delta),
    ("samples", ColumnKind::U32, ColumnPacking::Dictionary),
    ("cpu", ColumnKind::U16, ColumnPacking::Dictionary),
    ("pid", ColumnKind::U32, ColumnPacking::Dictionary),
    ("tid", ColumnKind::U32, ColumnPacking::Dictionary),
    ("comm", ColumnKind::Short(16), ColumnPacking::Dictionary),
    (
        "mechanism",
        ColumnKind::Short(16),
        ColumnPacking::Dictionary,
    ),
    ("part", ColumnKind::Short(8), ColumnPacking::Dictionary),
    ("kernel_stack", ColumnKind::I32, ColumnPacking::Dictionary),
    ("user_stack", ColumnKind::I32, ColumnPacking::Dictionary),
];

impl FlatRow for SampleRow {
    const FAMILY: TableFamily = TableFamily::Samples;
    const COLUMNS: &'static [ColumnSpec] = SAMPLE_COLUMNS;

    fn put_values(&self, to: &mut FlatRowWriter<'_>) {
        to.put_u64(self.t_ns);
        to.put_u32(self.samples);
        to.put_u16(self.cpu);
        to.put_u32(self.pid);
        to.put_u32(self.tid);
        to.put_text(&plain_comm(&self.comm).as_text());
        to.put_text(self.mechanism.map_or("", Mechanism::name));
        to.put_text(if self.mechanism.is_some() {
            self.part.name()
        } else {
            ""
        });
        to.put_i32(self.kernel_stack);
        to.put_i32(self.user_stack);
    }

    fn take_values(from: &mut FlatRowReader<'_>) -> Self {
        Self {
            t_ns: from.take_u64(),
            samples: from.take_u32(),
            cpu: from.take_u16(),
            pid: from.take_u32(),
            tid: from.take_u32(),
            comm: comm_from_bytes(from.take_text().as_bytes()),
            mechanism: from.take_text().parse().ok(),
            part: MechanismPart::from_name(&from.take_text()),
            kernel_stack: from.take_i32(),
            user_stack: from.take_i32(),
        }
    }
}
