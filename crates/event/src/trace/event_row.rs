//! One row of a trace: a shootdown and one of its victims.

use crate::shootdown::{flushed_page_count, is_full_flush};
use crate::{Cause, Comm, NO_STACK};

/// The victim's CPU in rows for victims that the probe did not see.
pub const UNSEEN_CPU: u16 = u16::MAX;

/// A shootdown and one of its victims. The rows of one shootdown follow each other, share `id`, and
/// are equal in all that is the culprit's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventRow {
    /// Number of the shootdown in the trace, from 0.
    pub id: u64,
    /// Number of the victim in the shootdown; `0` marks each shootdown's first row.
    pub victim_index: u16,
    /// When the first request was queued, ns of CLOCK_MONOTONIC.
    pub t_ns: u64,
    /// From then until the last victim that the probe saw was done, ns; 0 where it saw none.
    pub wait_ns: u64,
    /// Why; [`Cause::Other`] where a newer quell wrote a cause that this one does not know.
    pub cause: Cause,
    /// The system call that the culprit is in, as in [`crate::Shootdown`].
    pub syscall: i16,
    /// The culprit's process.
    pub pid: u32,
    /// The culprit's thread.
    pub tid: u32,
    /// Its name; bytes that are no text are `?`.
    pub comm: Comm,
    /// Its CPU.
    pub cpu: u16,
    /// Its cgroup's id in the v2 hierarchy.
    pub cgroup: u64,
    /// First address.
    pub start: u64,
    /// Address after the last; `u64::MAX` where everything is flushed.
    pub end: u64,
    /// The address space is the culprit's own.
    pub own_mm: bool,
    /// Number of the kernel stack, or [`NO_STACK`].
    pub kernel_stack: i32,
    /// Number of the user stack, or [`NO_STACK`].
    pub user_stack: i32,
    /// The victim, or [`UNSEEN_CPU`], and then all that follows is zero.
    pub victim_cpu: u16,
    /// The process that ran there, 0 where the CPU was idle.
    pub victim_pid: u32,
    /// The thread.
    pub victim_tid: u32,
    /// The thread's name; bytes that are no text are `?`.
    pub victim_comm: Comm,
    /// Interrupted for an address space that is not its own.
    pub bystander: bool,
    /// From queueing until the handler starts, ns.
    pub delay_ns: u32,
    /// Handler time, ns.
    pub stall_ns: u32,
}

impl Default for EventRow {
    fn default() -> Self {
        Self {
            id: 0,
            victim_index: 0,
            t_ns: 0,
            wait_ns: 0,
            cause: Cause::Other,
            syscall: 0,
            pid: 0,
            tid: 0,
            comm: Comm::default(),
            cpu: 0,
            cgroup: 0,
            start: 0,
            end: 0,
            own_mm: false,
            kernel_stack: NO_STACK,
            user_stack: NO_STACK,
            victim_cpu: 0,
            victim_pid: 0,
            victim_tid: 0,
            victim_comm: Comm::default(),
            bystander: false,
            delay_ns: 0,
            stall_ns: 0,
        }
    }
}

impl EventRow {
    /// Says whether this is the first row of its shootdown.
    #[must_use]
    pub fn is_first(&self) -> bool {
        self.victim_index == 0
    }

    /// Says whether the row stands for a victim that was counted, but whose answer the probe did not see: who it is is not known,
    /// and `delay_ns` and `stall_ns` are 0 because nothing was measured. A shootdown without any victim has one such row, because
    /// without a row it would not be there.
    #[must_use]
    pub fn is_unseen(&self) -> bool {
        self.victim_cpu == UNSEEN_CPU
    }

    /// Says whether the whole address space is flushed.
    #[must_use]
    pub fn is_full(&self) -> bool {
        is_full_flush(self.end)
    }

    /// Pages of 4 KiB asked for; 0 where everything is flushed.
    #[must_use]
    pub fn page_count(&self) -> u64 {
        flushed_page_count(self.start, self.end)
    }
}
