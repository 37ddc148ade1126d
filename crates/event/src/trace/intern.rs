//! Threads under small numbers: a thread takes 4 bytes a row, and is written once a batch.

use crate::Comm;

/// A thread, as events name it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Task {
    pub(super) pid: u32,
    pub(super) tid: u32,
    /// 0 for victims, whose cgroup is not kept.
    pub(super) cgroup: u64,
    pub(super) comm: Comm,
}

/// A slot without a task has this number.
const EMPTY_SLOT: u32 = u32::MAX;

/// A hash table that is only added to and cleared; it does without allocating once it has grown.
pub(super) struct TaskInterner {
    tasks: Vec<Task>,
    /// Numbers of tasks, or `EMPTY_SLOT`; a power of two of them, at most half in use.
    slots: Vec<u32>,
}

impl TaskInterner {
    pub(super) fn new() -> Self {
        Self {
            tasks: Vec::with_capacity(256),
            slots: vec![EMPTY_SLOT; 512],
        }
    }

    /// The task's number in this batch.
    #[inline]
    pub(super) fn number_of(&mut self, task: &Task) -> u32 {
        let mask = self.slots.len() - 1;
        let mut at = hash_task(task) & mask;
        loop {
            // `at` is below a power of two that is the length.
            match self.slots[at] {
                EMPTY_SLOT => return self.add_task(task, at),
                n if self.tasks[n as usize] == *task => return n,
                _ => at = (at + 1) & mask,
            }
        }
    }

    #[cold]
    fn add_task(&mut self, task: &Task, at: usize) -> u32 {
        let n = self.tasks.len() as u32;
        self.tasks.push(*task);
        self.slots[at] = n;
        if self.tasks.len() * 2 > self.slots.len() {
            self.grow_slots();
        }
        n
    }

    fn grow_slots(&mut self) {
        self.slots = vec![EMPTY_SLOT; self.slots.len() * 2];
        let mask = self.slots.len() - 1;
        for (n, task) in self.tasks.iter().enumerate() {
            let mut at = hash_task(task) & mask;
            while self.slots[at] != EMPTY_SLOT {
                at = (at + 1) & mask;
            }
            self.slots[at] = n as u32;
        }
    }

    /// All tasks, by number.
    pub(super) fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    pub(super) fn clear(&mut self) {
        if !self.tasks.is_empty() {
            self.tasks.clear();
            self.slots.fill(EMPTY_SLOT);
        }
    }
}

/// A thread's number tells almost all threads apart; names and cgroups change rarely.
fn hash_task(task: &Task) -> usize {
    let key = u64::from(task.tid) << 32 | u64::from(task.pid);
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that equal tasks share a number, that others don't, and that growing and clearing keep it so.
    #[test]
    fn numbers_are_stable() {
        let mut interner = TaskInterner::new();
        for round in 0..2 {
            let task = |n: u32| Task {
                pid: n / 3,
                tid: n / 2,
                cgroup: u64::from(n % 2),
                comm: Comm::from("t"),
            };
            let first: Vec<u32> = (0..10_000).map(|n| interner.number_of(&task(n))).collect();
            let again: Vec<u32> = (0..10_000).map(|n| interner.number_of(&task(n))).collect();
            assert_eq!(first, again, "round {round}");
            assert_eq!(first, (0..10_000).collect::<Vec<u32>>());
            assert_eq!(interner.tasks()[77], task(77));
            interner.clear();
        }
    }
}
