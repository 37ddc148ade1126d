//! Events on their way to the tail: one buffer a column, filled while the program is measured.

use super::intern::{Interner, Task};
use super::row::UNSEEN_CPU;
use crate::{Comm, Shootdown, Victim};

/// Beyond so many rows that could not be written, more are dropped rather than kept in memory.
pub(super) const ROWS_CAP: usize = 2 << 20;

/// Bits of `flags`.
pub(super) const OWN_MM: u8 = 1;
pub(super) const BYSTANDER: u8 = 2;

/// One entry a row in each vector.
pub(super) struct Columns {
    pub(super) id: Vec<u64>,
    pub(super) victim_index: Vec<u16>,
    pub(super) t_ns: Vec<u64>,
    pub(super) wait_ns: Vec<u64>,
    pub(super) cause: Vec<u8>,
    pub(super) syscall: Vec<i16>,
    pub(super) culprit: Vec<u32>,
    pub(super) cpu: Vec<u16>,
    pub(super) start: Vec<u64>,
    pub(super) end: Vec<u64>,
    pub(super) kernel_stack: Vec<i32>,
    pub(super) user_stack: Vec<i32>,
    pub(super) victim: Vec<u32>,
    pub(super) victim_cpu: Vec<u16>,
    pub(super) flags: Vec<u8>,
    pub(super) delay_ns: Vec<u32>,
    pub(super) stall_ns: Vec<u32>,
    /// What `culprit` counts.
    pub(super) culprits: Interner,
    /// What `victim` counts.
    pub(super) victims: Interner,
}

impl Columns {
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
            culprits: Interner::new(),
            victims: Interner::new(),
        }
    }

    pub(super) fn rows(&self) -> usize {
        self.id.len()
    }

    /// Adds a row for each victim. A shootdown hits somebody, so where nobody is named, somebody
    /// was not seen.
    #[inline]
    pub(super) fn push(&mut self, id: u64, s: &Shootdown) {
        let culprit = self.culprits.id(&Task {
            pid: s.pid,
            tid: s.tid,
            cgroup: s.cgroup,
            comm: s.comm,
        });
        let mut index = 0;
        for v in &s.victims {
            self.row(id, index, culprit, s, v);
            index = index.saturating_add(1);
        }
        let unseen = if s.victims.is_empty() {
            s.unseen.max(1)
        } else {
            s.unseen
        };
        if unseen > 0 {
            self.unseen(id, index, culprit, s, unseen);
        }
    }

    #[cold]
    fn unseen(&mut self, id: u64, mut index: u16, culprit: u32, s: &Shootdown, n: u16) {
        let nobody = Victim {
            cpu: UNSEEN_CPU,
            ..Victim::default()
        };
        for _ in 0..n {
            self.row(id, index, culprit, s, &nobody);
            index = index.saturating_add(1);
        }
    }

    #[inline]
    fn row(&mut self, id: u64, index: u16, culprit: u32, s: &Shootdown, v: &Victim) {
        let victim = self.victims.id(&Task {
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
            .push(u8::from(s.own_mm) * OWN_MM + u8::from(v.bystander) * BYSTANDER);
        self.delay_ns.push(v.delay_ns);
        self.stall_ns.push(v.stall_ns);
    }
}

/// A name as text: what is no UTF-8 becomes `?`, a byte each, so that it stays as short as it was. What is not
/// plain is not in a trace either.
pub(super) fn as_text(comm: &Comm) -> Comm {
    let end = comm.0.iter().position(|&b| b == 0).unwrap_or(comm.0.len());
    let mut clean = Comm::default();
    let mut at = 0;
    for chunk in comm.0[..end].utf8_chunks() {
        let valid = chunk.valid().as_bytes();
        clean.0[at..at + valid.len()].copy_from_slice(valid);
        at += valid.len();
        let invalid = chunk.invalid().len();
        clean.0[at..at + invalid].fill(b'?');
        at += invalid;
    }
    comm_of(clean.text().as_bytes())
}

/// A name from text; longer text than the kernel keeps is cut.
pub(super) fn comm_of(text: &[u8]) -> Comm {
    let mut comm = Comm::default();
    let n = text.len().min(comm.0.len());
    comm.0[..n].copy_from_slice(&text[..n]);
    comm
}
