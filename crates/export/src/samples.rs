//! Shootdowns summed up by origin, as flame graphs show them.

use std::collections::HashMap;

use quell_event::trace::{EventRow, StackCost, StackFrame};
use quell_event::{Cause, Comm, Mechanism, MechanismPart, NO_STACK};

use crate::{Rows, Stacks};

/// The meaning of a sample's size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SampleWeight {
    /// Time that culprits waited, ns.
    #[default]
    Wait,
    /// Shootdowns.
    Count,
    /// Time that victims were stalled, ns.
    Stall,
    /// CPU time of memory management, ns, by samples.
    Cpu,
    /// Time asleep because of memory management, ns.
    Blocked,
}

/// The work that the origin caused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum SampledWork {
    /// A shootdown.
    Shootdown(Cause),
    /// Something of the account.
    Memory(Mechanism, MechanismPart),
}

impl SampledWork {
    /// The cause, or the mechanism.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Shootdown(cause) => cause.name(),
            Self::Memory(mechanism, _) => mechanism.name(),
        }
    }

    /// The part of the mechanism, where that is known.
    pub(crate) fn part_name(self) -> Option<&'static str> {
        match self {
            Self::Memory(_, part) if part != MechanismPart::Other => Some(part.name()),
            _ => None,
        }
    }

    /// As the innermost frames, each in brackets.
    pub(crate) fn frames(self) -> impl Iterator<Item = String> {
        let names = [Some(self.name()), self.part_name()];
        names.into_iter().flatten().map(|name| format!("[{name}]"))
    }
}

/// Samples with the same values here are summed up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SampleOrigin {
    pub(crate) pid: u32,
    pub(crate) comm: Comm,
    pub(crate) what: SampledWork,
    pub(crate) user_stack: i32,
    pub(crate) kernel_stack: i32,
}

/// The sums of one origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SampleSums {
    pub(crate) shootdowns: u64,
    pub(crate) wait_ns: u64,
    pub(crate) stall_ns: u64,
    pub(crate) cpu_ns: u64,
    pub(crate) blocked_ns: u64,
}

impl SampleSums {
    pub(crate) fn weight_of(&self, weight: SampleWeight) -> u64 {
        match weight {
            SampleWeight::Wait => self.wait_ns,
            SampleWeight::Count => self.shootdowns,
            SampleWeight::Stall => self.stall_ns,
            SampleWeight::Cpu => self.cpu_ns,
            SampleWeight::Blocked => self.blocked_ns,
        }
    }

    fn add_row(&mut self, row: &EventRow) {
        if row.is_first() {
            // Each row of a shootdown has its wait, which counts once.
            self.shootdowns += 1;
            self.wait_ns = self.wait_ns.saturating_add(row.wait_ns);
        }
        self.stall_ns = self.stall_ns.saturating_add(row.stall_ns.into());
    }
}

impl SampleOrigin {
    /// The frames of the program and then the kernel's, from the outermost inwards.
    pub(crate) fn frames<'a>(&self, stacks: &'a Stacks) -> impl Iterator<Item = &'a StackFrame> {
        let of = |id| {
            let stack = stacks.get(&id);
            stack.into_iter().flat_map(|s| s.frames.iter().rev())
        };
        of(self.user_stack).chain(of(self.kernel_stack))
    }
}

impl SampleWeight {
    /// Whether it is of the account, and not of shootdowns.
    pub(crate) fn is_of_account(self) -> bool {
        matches!(self, Self::Cpu | Self::Blocked)
    }
}

/// The sums that a weight needs.
pub(crate) fn sum_of(
    rows: &Rows<'_>,
    weight: SampleWeight,
) -> anyhow::Result<Vec<(SampleOrigin, SampleSums)>> {
    if weight.is_of_account() {
        account_sums(rows)
    } else {
        origin_sums(rows)
    }
}

/// The account by stacks, which are those of programs only. Lines of it that can't be read are left out.
pub(crate) fn account_sums(rows: &Rows<'_>) -> anyhow::Result<Vec<(SampleOrigin, SampleSums)>> {
    let (costs, _garbled) = rows.trace().read_account()?;
    let origin = |cost: &StackCost| SampleOrigin {
        pid: cost.pid,
        comm: Comm::from(cost.comm.as_str()),
        what: SampledWork::Memory(cost.mechanism, cost.part),
        user_stack: cost
            .stack
            .and_then(|id| i32::try_from(id).ok())
            .unwrap_or(NO_STACK),
        kernel_stack: NO_STACK,
    };
    let sums = costs.iter().map(|cost| {
        let sums = SampleSums {
            cpu_ns: cost.cpu_ns,
            blocked_ns: cost.blocked_ns,
            ..SampleSums::default()
        };
        (origin(cost), sums)
    });
    let mut sums: Vec<_> = sums.collect();
    sums.sort_unstable_by_key(|(origin, _)| *origin);
    Ok(sums)
}

/// The sums of all origins, in an order that doesn't depend on the run.
pub(crate) fn origin_sums(rows: &Rows<'_>) -> anyhow::Result<Vec<(SampleOrigin, SampleSums)>> {
    let mut sums: HashMap<SampleOrigin, SampleSums> = HashMap::new();
    rows.each_row(|row| {
        let origin = SampleOrigin {
            pid: row.pid,
            comm: row.comm,
            what: SampledWork::Shootdown(row.cause),
            user_stack: row.user_stack,
            kernel_stack: row.kernel_stack,
        };
        sums.entry(origin).or_default().add_row(row);
        Ok(())
    })?;
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_unstable_by_key(|(origin, _)| *origin);
    Ok(sums)
}
