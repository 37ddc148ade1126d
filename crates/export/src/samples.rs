//! Shootdowns summed up by where they came from: what flame graphs are drawn of.

use std::collections::HashMap;

use quell_event::trace::{Frame, Row};
use quell_event::{Cause, Comm};

use crate::{Rows, Stacks};

/// What the size of a sample stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Weight {
    /// What culprits waited, ns.
    #[default]
    Wait,
    /// Shootdowns.
    Count,
    /// What victims were stalled, ns.
    Stall,
}

/// What tells samples apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Origin {
    pub(crate) pid: u32,
    pub(crate) comm: Comm,
    pub(crate) cause: Cause,
    pub(crate) user_stack: i32,
    pub(crate) kernel_stack: i32,
}

/// The sums of one origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) shootdowns: u64,
    pub(crate) wait_ns: u64,
    pub(crate) stall_ns: u64,
}

impl Sums {
    pub(crate) fn weigh(&self, weight: Weight) -> u64 {
        match weight {
            Weight::Wait => self.wait_ns,
            Weight::Count => self.shootdowns,
            Weight::Stall => self.stall_ns,
        }
    }

    fn add(&mut self, row: &Row) {
        if row.is_first() {
            self.shootdowns += 1;
            self.wait_ns = self.wait_ns.saturating_add(row.wait_ns);
        }
        self.stall_ns = self.stall_ns.saturating_add(row.stall_ns.into());
    }
}

impl Origin {
    /// The frames of the program and then the kernel's, from the outermost inwards.
    pub(crate) fn frames<'a>(&self, stacks: &'a Stacks) -> impl Iterator<Item = &'a Frame> {
        let of = |id| {
            let stack = stacks.get(&id);
            stack.into_iter().flat_map(|s| s.frames.iter().rev())
        };
        of(self.user_stack).chain(of(self.kernel_stack))
    }
}

/// The sums of all origins, in an order that doesn't depend on the run.
pub(crate) fn sum(rows: &Rows<'_>) -> anyhow::Result<Vec<(Origin, Sums)>> {
    let mut sums: HashMap<Origin, Sums> = HashMap::new();
    rows.each(|row| {
        let origin = Origin {
            pid: row.pid,
            comm: row.comm,
            cause: row.cause,
            user_stack: row.user_stack,
            kernel_stack: row.kernel_stack,
        };
        sums.entry(origin).or_default().add(row);
        Ok(())
    })?;
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_unstable_by_key(|(origin, _)| *origin);
    Ok(sums)
}
