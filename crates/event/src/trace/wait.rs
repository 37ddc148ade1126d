//! One row of `waits`: a sleep that memory management caused.

use crate::account::HolderRole;
use crate::{Comm, Mechanism, NO_STACK, Text};

use super::columns::{as_text, comm_of};
use super::flat::{FlatRow, Put, Take};
use super::names::Family;
use super::parquet_schema::{Column, Kind, Packing};

/// A thread slept because of memory management, from leaving its CPU until running again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// When it left its CPU, ns of CLOCK_MONOTONIC.
    pub t_ns: u64,
    /// Until it ran again, ns.
    pub wait_ns: u64,
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// The thread's name.
    pub comm: Comm,
    /// What the kernel did; `None` where a newer quell wrote one that this one does not know.
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
    /// What it was doing when the wait began.
    pub holder_doing: Text,
}

impl Default for Wait {
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

/// As columns.
pub(super) const COLUMNS: &[Column] = &[
    ("t_ns", Kind::I64, Packing::Delta),
    ("wait_ns", Kind::I64, Packing::Delta),
    ("pid", Kind::U32, Packing::Dictionary),
    ("tid", Kind::U32, Packing::Dictionary),
    ("comm", Kind::Short(16), Packing::Dictionary),
    ("mechanism", Kind::Short(16), Packing::Dictionary),
    ("syscall", Kind::I16, Packing::Dictionary),
    ("kernel_stack", Kind::I32, Packing::Dictionary),
    ("user_stack", Kind::I32, Packing::Dictionary),
    ("role", Kind::Short(8), Packing::Dictionary),
    ("holder_pid", Kind::U32, Packing::Dictionary),
    ("holder_tid", Kind::U32, Packing::Dictionary),
    ("holder_comm", Kind::Short(16), Packing::Dictionary),
    // two parts of a path of 31 bytes each, and what is done to it
    ("holder_doing", Kind::Short(80), Packing::Dictionary),
];

impl FlatRow for Wait {
    const FAMILY: Family = Family::Waits;

    fn put(&self, to: &mut Put<'_>) {
        to.u64(self.t_ns);
        to.u64(self.wait_ns);
        to.u32(self.pid);
        to.u32(self.tid);
        to.text(&as_text(&self.comm).text());
        to.text(self.mechanism.map_or("", Mechanism::name));
        to.i16(self.syscall);
        to.i32(self.kernel_stack);
        to.i32(self.user_stack);
        to.text(self.role.map_or("", HolderRole::name));
        to.u32(self.holder_pid);
        to.u32(self.holder_tid);
        to.text(&as_text(&self.holder_comm).text());
        to.text(&self.holder_doing);
    }

    fn take(from: &mut Take<'_>) -> Self {
        Self {
            t_ns: from.u64(),
            wait_ns: from.u64(),
            pid: from.u32(),
            tid: from.u32(),
            comm: comm_of(from.text().as_bytes()),
            mechanism: from.text().parse().ok(),
            syscall: from.i16(),
            kernel_stack: from.i32(),
            user_stack: from.i32(),
            role: HolderRole::of(&from.text()),
            holder_pid: from.u32(),
            holder_tid: from.u32(),
            holder_comm: comm_of(from.text().as_bytes()),
            holder_doing: Text::from(from.text()),
        }
    }
}
