//! One row of `waits`: a sleep that memory management caused.

use crate::account::HolderRole;
use crate::{Comm, Mechanism, NO_STACK, Text};

use super::comm::{comm_from_bytes, plain_comm};
use super::file_names::TableFamily;
use super::flat::{FlatRow, FlatRowReader, FlatRowWriter};
use super::parquet_schema::{ColumnKind, ColumnPacking, ColumnSpec};

/// A thread slept because of memory management, from leaving its CPU until running again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitRow {
    /// When it left its CPU, ns of CLOCK_MONOTONIC.
    pub t_ns: u64,
    /// How long it slept, until it ran again, ns.
    pub wait_ns: u64,
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// The thread's name.
    pub comm: Comm,
    /// The work of the kernel that it slept for; `None` where a newer quell wrote a mechanism that this one does not know.
    pub mechanism: Option<Mechanism>,
    /// The system call that the thread is in, as in [`crate::Shootdown`].
    pub syscall: i16,
    /// Number of the kernel stack, or [`NO_STACK`].
    pub kernel_stack: i32,
    /// Number of the user stack, or [`NO_STACK`].
    pub user_stack: i32,
    /// Whether it waited for a lock, of which the rest is told.
    pub role: Option<HolderRole>,
    /// The process that held it; 0 where that is not known.
    pub holder_pid: u32,
    /// The thread that held it.
    pub holder_tid: u32,
    /// The name of its process.
    pub holder_comm: Comm,
    /// The holder's work when the wait began.
    pub holder_doing: Text,
}

impl Default for WaitRow {
    fn default() -> Self {
        Self {
            t_ns: 0,
            wait_ns: 0,
            pid: 0,
            tid: 0,
            comm: Comm::default(),
            mechanism: None,
            syscall: 0,
            kernel_stack: NO_STACK,
            user_stack: NO_STACK,
            role: None,
            holder_pid: 0,
            holder_tid: 0,
            holder_comm: Comm::default(),
            holder_doing: Text::default(),
        }
    }
}

/// The columns of this table, in the order in which rows put and take their values.
pub(super) const WAIT_COLUMNS: &[ColumnSpec] = &[
    ("t_ns", ColumnKind::I64, ColumnPacking::Delta),
    ("wait_ns", ColumnKind::I64, ColumnPacking::Delta),
    ("pid", ColumnKind::U32, ColumnPacking::Dictionary),
    ("tid", ColumnKind::U32, ColumnPacking::Dictionary),
    ("comm", ColumnKind::Short(16), ColumnPacking::Dictionary),
    (
        "mechanism",
        ColumnKind::Short(16),
        ColumnPacking::Dictionary,
    ),
    ("syscall", ColumnKind::I16, ColumnPacking::Dictionary),
    ("kernel_stack", ColumnKind::I32, ColumnPacking::Dictionary),
    ("user_stack", ColumnKind::I32, ColumnPacking::Dictionary),
    ("role", ColumnKind::Short(8), ColumnPacking::Dictionary),
    ("holder_pid", ColumnKind::U32, ColumnPacking::Dictionary),
    ("holder_tid", ColumnKind::U32, ColumnPacking::Dictionary),
    (
        "holder_comm",
        ColumnKind::Short(16),
        ColumnPacking::Dictionary,
    ),
    // two parts of a path of 31 bytes each, and the operation on it
    (
        "holder_doing",
        ColumnKind::Short(80),
        ColumnPacking::Dictionary,
    ),
];

impl FlatRow for WaitRow {
    const FAMILY: TableFamily = TableFamily::Waits;
    const COLUMNS: &'static [ColumnSpec] = WAIT_COLUMNS;

    fn put_values(&self, to: &mut FlatRowWriter<'_>) {
        to.put_u64(self.t_ns);
        to.put_u64(self.wait_ns);
        to.put_u32(self.pid);
        to.put_u32(self.tid);
        to.put_text(&plain_comm(&self.comm).as_text());
        to.put_text(self.mechanism.map_or("", Mechanism::name));
        to.put_i16(self.syscall);
        to.put_i32(self.kernel_stack);
        to.put_i32(self.user_stack);
        to.put_text(self.role.map_or("", HolderRole::name));
        to.put_u32(self.holder_pid);
        to.put_u32(self.holder_tid);
        to.put_text(&plain_comm(&self.holder_comm).as_text());
        to.put_text(&self.holder_doing);
    }

    fn take_values(from: &mut FlatRowReader<'_>) -> Self {
        Self {
            t_ns: from.take_u64(),
            wait_ns: from.take_u64(),
            pid: from.take_u32(),
            tid: from.take_u32(),
            comm: comm_from_bytes(from.take_text().as_bytes()),
            mechanism: from.take_text().parse().ok(),
            syscall: from.take_i16(),
            kernel_stack: from.take_i32(),
            user_stack: from.take_i32(),
            role: from.take_text().parse().ok(),
            holder_pid: from.take_u32(),
            holder_tid: from.take_u32(),
            holder_comm: comm_from_bytes(from.take_text().as_bytes()),
            holder_doing: Text::from(from.take_text()),
        }
    }
}
