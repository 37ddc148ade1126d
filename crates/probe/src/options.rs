//! The options of the probe.

use std::num::NonZeroU32;

use crate::backend::Backend;
use crate::layout;

/// Which shootdowns count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All of them, except quell's own.
    All,
    /// Those of processes that are named by [`Probe::add_process`](crate::Probe::add_process), and of all their descendants:
    /// as culprits, and where the kernel flushes their memory.
    Tree,
    /// Those that interrupt one of these CPUs.
    Cpus(Vec<u32>),
}

impl Scope {
    /// The scope's number in the eBPF programs.
    pub(crate) fn scope_kind(&self) -> u32 {
        match self {
            Self::All => layout::SCOPE_ALL,
            Self::Tree => layout::SCOPE_TREE,
            Self::Cpus(_) => layout::SCOPE_CPUS,
        }
    }
}

/// The share of shootdowns whose stacks are kept. Counts never depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StackShare {
    /// No shootdown has its stacks kept.
    None,
    /// One in so many has its stacks kept, on each CPU.
    OneIn(NonZeroU32),
}

impl StackShare {
    /// Every shootdown has its stacks kept.
    pub const ALL: Self = Self::OneIn(NonZeroU32::MIN);
}

/// The share of shootdowns that are timed. Counts always have all shootdowns, and every record has times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimedShare {
    /// All are timed.
    All,
    /// All of a CPU that makes no more than so many a second. Of one that makes more about so many are timed, drawn by
    /// chance, and stand for the others; [`quell_event::Tally::untimed`] has how many are not.
    AtMost(NonZeroU32),
}

impl TimedShare {
    /// The rate for somebody who looks now, perhaps every second.
    pub const USUAL_RATE: Self = Self::AtMost(NonZeroU32::new(15_625).unwrap());
    /// The rate for watching for days: in ten seconds that is still enough for a 99th percentile, and in a minute for a
    /// 99.9th.
    pub const SPARING_RATE: Self = Self::AtMost(NonZeroU32::new(250).unwrap());
}

/// The detail that is kept of single shootdowns, besides the counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeptDetail {
    /// No detail is kept.
    #[default]
    Counts,
    /// Some shootdowns are kept, for [`crate::ShootdownSamples`].
    Samples,
    /// A record of each is kept, for [`crate::ShootdownRecords`].
    Records,
}

/// The options of a probe.
#[derive(Clone, Debug)]
pub struct ProbeOptions {
    /// Which shootdowns count.
    pub scope: Scope,
    /// The detail that is kept besides the counts.
    pub keep: KeptDetail,
    /// The share of records that have stacks.
    pub stacks: StackShare,
    /// Size of the ring of records or samples, bytes; a power of two.
    pub ring_bytes: u32,
    /// Which shootdowns are timed.
    pub timed: TimedShare,
    /// How to see shootdowns; `None` for the first way that this kernel allows.
    pub backend: Option<Backend>,
    /// Tell culprits and victims apart by cgroup and not by process, with a scope of all: processes come and go, and the
    /// tables fill up. Tallies have no process then.
    pub by_cgroup: bool,
    /// Take pieces of the stacks of programs, to unwind those that keep no frame pointers.
    pub unwind: bool,
    /// Count all other function calls between CPUs as well.
    pub ipi: bool,
}

impl Default for ProbeOptions {
    fn default() -> Self {
        Self {
            scope: Scope::All,
            keep: KeptDetail::Counts,
            stacks: StackShare::ALL,
            ring_bytes: 64 << 20,
            timed: TimedShare::USUAL_RATE,
            backend: None,
            by_cgroup: false,
            unwind: false,
            ipi: false,
        }
    }
}
