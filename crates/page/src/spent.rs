//! The time of memory management by stacks, for a flame graph beside the account.

use std::collections::BTreeMap;

use indexmap::IndexSet;
use quell_event::trace::StackCost;
use quell_event::{Mechanism, MechanismPart};
use serde::Serialize;

use crate::about::NameSource;
use crate::names::{StackTree, UniqueTexts};

/// At most this many stacks are kept; the time of the others is under "other stacks".
const MAX_STACKS: usize = 4_000;

/// The bound of their names: the page has as many again of shootdowns' stacks.
const MAX_NAME_BYTES: usize = 600_000;

/// The stack of a row whose own stack was folded.
const FOLDED_STACK: i32 = -2;

/// A row for each process, mechanism, part and stack.
#[derive(Debug, Default, Serialize)]
pub(crate) struct SpentRows {
    /// By number, the dearest first.
    mechanisms: Vec<&'static str>,
    parts: Vec<&'static str>,
    processes: BTreeMap<u32, String>,
    pid: Vec<u32>,
    mechanism: Vec<usize>,
    /// Of `parts`; −1 where it is not known.
    part: Vec<i64>,
    /// A node of the tree; −1 none, −2 folded.
    stack: Vec<i32>,
    cpu_ns: Vec<u64>,
    blocked_ns: Vec<u64>,
}

impl SpentRows {
    /// The rows of stacks' costs; `None` where nothing cost time. Names of frames go to `texts`, and stacks into the tree.
    pub(crate) fn new(
        costs: &[StackCost],
        names: &dyn NameSource,
        texts: &mut UniqueTexts,
        tree: &mut StackTree,
    ) -> Option<Self> {
        let ns = |c: &StackCost| c.cpu_ns.saturating_add(c.blocked_ns);
        let mut costs: Vec<&StackCost> = costs.iter().filter(|c| ns(c) > 0).collect();
        costs.sort_by_key(|c| std::cmp::Reverse(ns(c)));
        if costs.is_empty() {
            return None;
        }
        let before = texts.bytes + tree.json_bytes();
        // Folded stacks share one row.
        let mut rows: BTreeMap<(u32, Mechanism, MechanismPart, i32), [u64; 2]> = BTreeMap::new();
        let mut spent = Self::default();
        let (mut mechanisms, mut parts) = (IndexSet::new(), IndexSet::new());
        for (n, cost) in costs.into_iter().enumerate() {
            let full = n >= MAX_STACKS || texts.bytes + tree.json_bytes() - before > MAX_NAME_BYTES;
            let stack = match cost.stack.and_then(|id| i32::try_from(id).ok()) {
                Some(_) if full => FOLDED_STACK,
                Some(id) => names
                    .stack(id)
                    .map_or(-1, |frames| tree.add(texts, &frames)),
                None => -1,
            };
            mechanisms.insert(cost.mechanism.name());
            spent
                .processes
                .entry(cost.pid)
                .or_insert_with(|| cost.comm.to_string());
            let key = (cost.pid, cost.mechanism, cost.part, stack);
            let [cpu, blocked] = rows.entry(key).or_default();
            *cpu = cpu.saturating_add(cost.cpu_ns);
            *blocked = blocked.saturating_add(cost.blocked_ns);
        }
        for ((pid, mechanism, part, stack), [cpu_ns, blocked_ns]) in rows {
            spent.pid.push(pid);
            spent
                .mechanism
                .push(mechanisms.insert_full(mechanism.name()).0);
            spent.part.push(match part {
                MechanismPart::Other => -1,
                part => parts.insert_full(part.name()).0 as i64,
            });
            spent.stack.push(stack);
            spent.cpu_ns.push(cpu_ns);
            spent.blocked_ns.push(blocked_ns);
        }
        spent.mechanisms = mechanisms.into_iter().collect();
        spent.parts = parts.into_iter().collect();
        Some(spent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    struct Deep;

    impl NameSource for Deep {
        fn stack(&self, stack: i32) -> Option<Vec<String>> {
            (stack % 7 > 0).then(|| vec![format!("outer {}", stack % 3), format!("f{stack}")])
        }
        fn region(&self, _: u32) -> String {
            String::new()
        }
        fn process(&self, _: u32) -> Option<String> {
            None
        }
    }

    proptest! {
        /// Check that whatever is folded, all time is there, and every number stands for something.
        #[test]
        fn nothing_is_lost(rows in prop::collection::vec((0u32..3, 0u32..6000, 0u64..1000, 0u64..1000), 0..6000)) {
            let costs: Vec<StackCost> = rows
                .iter()
                .map(|&(pid, stack, cpu_ns, blocked_ns)| StackCost {
                    pid,
                    comm: "p".into(),
                    mechanism: [Mechanism::FaultAnon, Mechanism::Unmap][(stack % 2) as usize],
                    part: [MechanismPart::Other, MechanismPart::Alloc][(pid % 2) as usize],
                    stack: (stack > 10).then_some(stack),
                    samples: 1,
                    cpu_ns,
                    waits: 1,
                    blocked_ns,
                    longest_ns: 0,
                })
                .collect();
            let (mut texts, mut tree) = (UniqueTexts::default(), StackTree::default());
            let all = |of: fn(&StackCost) -> u64| costs.iter().map(of).sum::<u64>();
            let (cpu, blocked) = (all(|c| c.cpu_ns), all(|c| c.blocked_ns));
            let Some(spent) = SpentRows::new(&costs, &Deep, &mut texts, &mut tree) else {
                prop_assert_eq!(cpu + blocked, 0);
                return Ok(());
            };
            prop_assert_eq!(spent.cpu_ns.iter().sum::<u64>(), cpu);
            prop_assert_eq!(spent.blocked_ns.iter().sum::<u64>(), blocked);
            prop_assert!(spent.mechanism.iter().all(|&m| m < spent.mechanisms.len()));
            prop_assert!(spent.part.iter().all(|&p| p < spent.parts.len() as i64));
            prop_assert!(spent.stack.iter().all(|&s| s >= FOLDED_STACK && s < tree.parent.len() as i32));
            prop_assert!(spent.pid.iter().all(|pid| spent.processes.contains_key(pid)));
        }
    }
}
