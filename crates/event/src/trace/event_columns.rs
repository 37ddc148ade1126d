//! Events on their way to the tail: one buffer a column, filled while the program is measured.

use super::event_row::UNSEEN_CPU;
use super::intern::{Task, TaskInterner};
use crate::{Shootdown, ShootdownVictim};

/// Where so many rows could not be written, more are dropped rather than kept in memory.
pub(super) const MAX_PENDING_ROWS: usize = 2 << 20;

/// This bit of `flags` says that the address space is the culprit's own.
pub(super) const OWN_MM_FLAG: u8 = 1;
/// This bit of `flags` says that the victim is a bystander.
pub(super) const BYSTANDER_FLAG: u8 = 2;

/// One entry a row in each vector.
pub(super) struct EventColumns {
    pub(super) id: Vec<u64>,
    pub(super) victim_index: Vec<u16>,
    pub(super) t_ns: Vec<u64>,
    pub(super) wait_ns: Vec<u64>,
    /// The number of the cause in [`crate::Cause::ALL`]. The tail's schema says which names the numbers stand for.
    pub(super) cause: Vec<u8>,
    pub(super) syscall: Vec<i16>,
    /// The culprit's thread, by its number in `culprits`.
    pub(super) culprit: Vec<u32>,
    pub(super) cpu: Vec<u16>,
    pub(super) start: Vec<u64>,
    pub(super) end: Vec<u64>,
    pub(super) kernel_stack: Vec<i32>,
    pub(super) user_stack: Vec<i32>,
    /// The victim's thread, by its number in `victims`.
    pub(super) victim: Vec<u32>,
    pub(super) victim_cpu: Vec<u16>,
    /// [`OWN_MM_FLAG`] and [`BYSTANDER_FLAG`], or 0.
    pub(super) flags: Vec<u8>,
    pub(super) delay_ns: Vec<u32>,
    pub(super) stall_ns: Vec<u32>,
    /// The threads that `culprit` numbers.
    pub(super) culprits: TaskInterner,
    /// The threads that `victim` numbers.
    pub(super) victims: TaskInterner,
}

impl EventColumns {
    /// Room for `rows` rows; more is made room for when it is needed.
    pub(super) fn new(rows: usize) -> Self {
        Self {
            id: Vec::with_capacity(rows),
            victim_index: Vec::with_capacity(rows),
            t_ns: Vec::with_capacity(rows),
            wait_ns: Vec::with_capacity(rows),
            cause: Vec::with_capacity(rows),
            syscall: Vec::with_capacity(rows),
            culprit: Vec::with_capacity(rows),
            cpu: Vec::with_capacity(rows),
            start: Vec::with_capacity(rows),
            end: Vec::with_capacity(rows),
            kernel_stack: Vec::with_capacity(rows),
            user_stack: Vec::with_capacity(rows),
            victim: Vec::with_capacity(rows),
            victim_cpu: Vec::with_capacity(rows),
            flags: Vec::with_capacity(rows),
            delay_ns: Vec::with_capacity(rows),
            stall_ns: Vec::with_capacity(rows),
            culprits: TaskInterner::new(),
            victims: TaskInterner::new(),
        }
    }

    pub(super) fn row_count(&self) -> usize {
        self.id.len()
    }

    /// Adds a row for each victim. A shootdown hits somebody, so where nobody is named, somebody
    /// was not seen.
    #[inline]
    pub(super) fn push_shootdown(&mut self, id: u64, s: &Shootdown) {
        let culprit = self.culprits.number_of(&Task {
            pid: s.pid,
            tid: s.tid,
            cgroup: s.cgroup,
            comm: s.comm,
        });
        let mut index = 0;
        for v in &s.victims {
            self.push_row(id, index, culprit, s, v);
            index = index.saturating_add(1);
        }
        let unseen = if s.victims.is_empty() {
            s.unseen.max(1)
        } else {
            s.unseen
        };
        if unseen > 0 {
            self.push_unseen(id, index, culprit, s, unseen);
        }
    }

    #[cold]
    fn push_unseen(&mut self, id: u64, mut index: u16, culprit: u32, s: &Shootdown, n: u16) {
        let nobody = ShootdownVictim {
            cpu: UNSEEN_CPU,
            ..ShootdownVictim::default()
        };
        for _ in 0..n {
            self.push_row(id, index, culprit, s, &nobody);
            index = index.saturating_add(1);
        }
    }

    #[inline]
    fn push_row(&mut self, id: u64, index: u16, culprit: u32, s: &Shootdown, v: &ShootdownVictim) {
        let victim = self.victims.number_of(&Task {
            pid: v.pid,
            tid: v.tid,
            cgroup: 0,
            comm: v.comm,
        });
        self.id.push(id);
        self.victim_index.push(index);
        self.t_ns.push(s.t_ns);
        self.wait_ns.push(s.wait_ns);
        self.cause.push(s.cause as u8);
        self.syscall.push(s.syscall);
        self.culprit.push(culprit);
        self.cpu.push(s.cpu);
        self.start.push(s.start);
        self.end.push(s.end);
        self.kernel_stack.push(s.kernel_stack);
        self.user_stack.push(s.user_stack);
        self.victim.push(victim);
        self.victim_cpu.push(v.cpu);
        self.flags
            .push(u8::from(s.own_mm) * OWN_MM_FLAG + u8::from(v.bystander) * BYSTANDER_FLAG);
        self.delay_ns.push(v.delay_ns);
        self.stall_ns.push(v.stall_ns);
    }
}
