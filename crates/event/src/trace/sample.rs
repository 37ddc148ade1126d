//! One row of `samples`: where a CPU was at a tick.

use crate::account::Part;
use crate::{Comm, Mechanism, NO_STACK};

use super::columns::{as_text, comm_of};
use super::flat::{FlatRow, Put, Take};
use super::names::Family;
use super::parquet_schema::{Column, Kind, Packing};

/// A sample of memory management, or some that were of nothing of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
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
    /// What the kernel did; `None` where it did nothing for memory management, or what a newer quell has a name for.
    pub mechanism: Option<Mechanism>,
    /// And what within that.
    pub part: Part,
    /// Number of the kernel stack, or [`NO_STACK`].
    pub kernel_stack: i32,
    /// Number of the user stack, or [`NO_STACK`].
    pub user_stack: i32,
}

impl Default for Sample {
    fn default() -> Self {
        Self {
            t_ns: 0,
            samples: 1,
            cpu: 0,
            pid: 0,
            tid: 0,
            comm: Comm::default(),
            mechanism: None,
            part: Part::Other,
            kernel_stack: NO_STACK,
            user_stack: NO_STACK,
        }
    }
}

/// As columns.
pub(super) const COLUMNS: &[Column] = &[
    ("t_ns", Kind::I64, Packing::Delta),
    ("samples", Kind::U32, Packing::Dictionary),
    ("cpu", Kind::U16, Packing::Dictionary),
    ("pid", Kind::U32, Packing::Dictionary),
    ("tid", Kind::U32, Packing::Dictionary),
    ("comm", Kind::Short(16), Packing::Dictionary),
    ("mechanism", Kind::Short(16), Packing::Dictionary),
    ("part", Kind::Short(8), Packing::Dictionary),
    ("kernel_stack", Kind::I32, Packing::Dictionary),
    ("user_stack", Kind::I32, Packing::Dictionary),
];

impl FlatRow for Sample {
    const FAMILY: Family = Family::Samples;

    fn put(&self, to: &mut Put<'_>) {
        to.u64(self.t_ns);
        to.u32(self.samples);
        to.u16(self.cpu);
        to.u32(self.pid);
        to.u32(self.tid);
        to.text(&as_text(&self.comm).text());
        to.text(self.mechanism.map_or("", Mechanism::name));
        to.text(if self.mechanism.is_some() {
            self.part.name()
        } else {
            ""
        });
        to.i32(self.kernel_stack);
        to.i32(self.user_stack);
    }

    fn take(from: &mut Take<'_>) -> Self {
        Self {
            t_ns: from.u64(),
            samples: from.u32(),
            cpu: from.u16(),
            pid: from.u32(),
            tid: from.u32(),
            comm: comm_of(from.text().as_bytes()),
            mechanism: from.text().parse().ok(),
            part: Part::of(&from.text()),
            kernel_stack: from.i32(),
            user_stack: from.i32(),
        }
    }
}
