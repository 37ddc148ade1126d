//! Samples and waits one by one, for a trace. They are kept until somebody takes them, within bounds.

use std::collections::HashMap;

use quell_event::trace::{SampleRow, WaitRow};
use quell_event::{Comm, HolderRole, NO_STACK, Text};

use super::holder;
use super::layout::{AccountSampleHead, WAIT_LOCK, WAIT_QUEUED, WAIT_READERS, WaitRecord};
use super::mechanisms::StackClass;

/// The most samples, and waits, that are kept until they are taken, which happens some times a second: some 60 MB of waits.
const MAX_KEPT_ROWS: usize = 1 << 18;

/// Samples of one thread on one CPU within this time become one row where they show no memory management: that is fine enough
/// for a line over time, and makes a tenth of the rows.
const MERGE_WINDOW_NS: u64 = 10_000_000;

/// The class and the stacks of a record, which its row has besides the record's own fields.
#[derive(Clone, Copy)]
pub(super) struct RowStacks {
    pub(super) class: StackClass,
    pub(super) kernel_stack: u32,
    pub(super) user_stack: u32,
}

/// Samples and waits that came since somebody took them last.
#[derive(Default)]
pub(super) struct Singles {
    waits: Vec<WaitRow>,
    samples: Vec<SampleRow>,
    /// Samples that show no memory management, by CPU and thread.
    others: HashMap<(u32, u32), SampleRow>,
    left_out: u64,
}

/// The number of a stack that has none: the table of stacks had no room for it.
pub(super) const UNNUMBERED_STACK: u32 = 0;

/// The number of a stack as rows have it.
fn row_stack_number(stack: u32) -> i32 {
    match i32::try_from(stack) {
        Ok(number) if stack != UNNUMBERED_STACK => number,
        _ => NO_STACK,
    }
}

fn narrow_or<T: TryFrom<u32>>(value: u32, else_: T) -> T {
    T::try_from(value).unwrap_or(else_)
}

/// How the lock was held that a thread waited for; `None` if it waited for no lock.
pub(super) fn holder_role(wait: &WaitRecord) -> Option<HolderRole> {
    (wait.flags & WAIT_LOCK != 0).then_some(match wait.flags {
        _ if wait.holder.tgid == 0 => HolderRole::Unknown,
        flags if flags & WAIT_QUEUED != 0 => HolderRole::Queued,
        flags if flags & WAIT_READERS != 0 => HolderRole::Reader,
        _ => HolderRole::Alone,
    })
}

/// The call of the thread that held the lock; empty where no holder is known.
pub(super) fn wait_holder_action(wait: &WaitRecord) -> String {
    if wait.holder.tgid == 0 {
        String::new()
    } else {
        holder::holder_action(&wait.holder)
    }
}

impl Singles {
    /// Keeps a sample; without `stacks` it shows no memory management.
    pub(super) fn keep_sample(&mut self, head: &AccountSampleHead, stacks: Option<RowStacks>) {
        let mut sample = SampleRow {
            t_ns: head.t_ns,
            cpu: narrow_or(head.cpu, u16::MAX),
            pid: head.tgid,
            tid: head.tid,
            comm: Comm(head.thread),
            ..SampleRow::default()
        };
        if let Some(stacks) = stacks {
            sample.mechanism = Some(stacks.class.mechanism);
            sample.part = stacks.class.part;
            sample.kernel_stack = row_stack_number(stacks.kernel_stack);
            sample.user_stack = row_stack_number(stacks.user_stack);
            self.push_sample(sample);
            return;
        }
        let key = (head.cpu, head.tid);
        match self.others.get_mut(&key) {
            Some(open)
                if open.pid == sample.pid
                    && open.comm == sample.comm
                    && sample.t_ns.saturating_sub(open.t_ns) < MERGE_WINDOW_NS =>
            {
                open.samples += 1;
            }
            Some(open) => {
                let full = std::mem::replace(open, sample);
                self.push_sample(full);
            }
            None => {
                self.others.insert(key, sample);
            }
        }
    }

    fn push_sample(&mut self, sample: SampleRow) {
        if self.samples.len() < MAX_KEPT_ROWS {
            self.samples.push(sample);
        } else {
            self.left_out += 1;
        }
    }

    /// Keeps a wait.
    pub(super) fn keep_wait(&mut self, wait: &WaitRecord, stacks: RowStacks) {
        if self.waits.len() >= MAX_KEPT_ROWS {
            self.left_out += 1;
            return;
        }
        let role = holder_role(wait);
        let is_lock = role.is_some();
        self.waits.push(WaitRow {
            t_ns: wait.end_ns.saturating_sub(wait.ns),
            wait_ns: wait.ns,
            pid: wait.tgid,
            tid: wait.tid,
            comm: Comm(wait.thread),
            mechanism: Some(stacks.class.mechanism),
            syscall: i16::try_from(wait.nr).unwrap_or(i16::MAX),
            kernel_stack: row_stack_number(stacks.kernel_stack),
            user_stack: row_stack_number(stacks.user_stack),
            role,
            holder_pid: if is_lock { wait.holder.tgid } else { 0 },
            holder_tid: if is_lock { wait.holder.tid } else { 0 },
            holder_comm: if is_lock {
                Comm(wait.holder.comm)
            } else {
                Comm::default()
            },
            holder_doing: if is_lock {
                Text::from(wait_holder_action(wait))
            } else {
                Text::default()
            },
        });
    }

    /// Gives rows the number that their user stack has, where `renumbered` has one for the number that it got too early.
    pub(super) fn renumber_stacks(&mut self, renumbered: &HashMap<u32, u32>) {
        let numbers = self.waits.iter_mut().map(|w| &mut w.user_stack);
        let numbers = numbers.chain(self.samples.iter_mut().map(|s| &mut s.user_stack));
        for stack in numbers {
            let found = u32::try_from(*stack).ok().and_then(|n| renumbered.get(&n));
            if let Some(&known) = found {
                *stack = row_stack_number(known);
            }
        }
    }

    /// All rows since the last call.
    pub(super) fn take_rows(&mut self) -> SinglesTaken {
        for (_, open) in std::mem::take(&mut self.others) {
            self.push_sample(open);
        }
        self.samples.sort_by_key(|s| s.t_ns);
        SinglesTaken {
            waits: std::mem::take(&mut self.waits),
            samples: std::mem::take(&mut self.samples),
            left_out: std::mem::take(&mut self.left_out),
        }
    }
}

/// Samples and waits, one by one.
#[derive(Default)]
pub struct SinglesTaken {
    /// In the order in which they ended.
    pub waits: Vec<WaitRow>,
    /// In the order in which they were taken.
    pub samples: Vec<SampleRow>,
    /// How many more there were that found no room.
    pub left_out: u64,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use quell_event::{Mechanism, MechanismPart};

    use super::*;

    const FOUND: RowStacks = RowStacks {
        class: StackClass {
            mechanism: Mechanism::LockMmap,
            part: MechanismPart::Spin,
        },
        kernel_stack: 7,
        user_stack: UNNUMBERED_STACK,
    };

    proptest! {
        /// Check that no sample is lost where others are put together, that each of memory management has a row, and that
        /// no row of others is longer than it may be.
        #[test]
        fn samples_add_up(ticks in prop::collection::vec((0_u64..4_000_000, 0_u32..3, 0_u32..3, any::<bool>()), 0..300)) {
            let mut singles = Singles::default();
            let (mut t_ns, mut rows) = (0, Vec::new());
            for (i, (step, cpu, tid, of_memory)) in ticks.iter().enumerate() {
                t_ns += step;
                let head = AccountSampleHead { t_ns, cpu: *cpu, tid: *tid, tgid: 9, ..AccountSampleHead::default() };
                singles.keep_sample(&head, of_memory.then_some(FOUND));
                if i % 50 == 0 {
                    rows.extend(singles.take_rows().samples);
                }
            }
            rows.extend(singles.take_rows().samples);
            let sum: u32 = rows.iter().map(|s| s.samples).sum();
            prop_assert_eq!(sum as usize, ticks.len());
            let of_memory = rows.iter().filter(|s| s.mechanism.is_some());
            prop_assert!(of_memory.clone().all(|s| s.samples == 1 && s.kernel_stack == 7));
            prop_assert_eq!(of_memory.count(), ticks.iter().filter(|t| t.3).count());
        }
    }

    /// Check that a wait for no lock names no holder, whatever its record has there, and that one for a lock does.
    #[test]
    fn holders_are_of_locks() {
        let mut singles = Singles::default();
        let mut wait = WaitRecord {
            end_ns: 100,
            ns: 30,
            nr: 11,
            ..WaitRecord::default()
        };
        wait.holder.tgid = 5;
        wait.holder.nr = 9;
        wait.holder.args = [0, 4096, 0];
        singles.keep_wait(&wait, FOUND);
        wait.flags = WAIT_LOCK;
        singles.keep_wait(&wait, FOUND);
        let taken = singles.take_rows().waits;
        assert_eq!((taken[0].role, taken[0].holder_pid), (None, 0));
        assert_eq!((taken[0].t_ns, taken[0].wait_ns), (70, 30));
        assert_eq!((taken[0].kernel_stack, taken[0].user_stack), (7, NO_STACK));
        assert_eq!(taken[1].role, Some(HolderRole::Alone));
        assert_eq!(taken[1].holder_doing, "mmap of 1 page");
        assert!(singles.take_rows().waits.is_empty());
    }
}
