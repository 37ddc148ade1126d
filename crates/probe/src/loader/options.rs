//! What the probe is asked for.

use std::num::NonZeroU32;

use crate::backend::Backend;
use crate::layout;

/// Which shootdowns count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All of them, but for quell's own.
    All,
    /// Those of processes that are named by [`Probe::add_process`], and of all their descendants:
    /// as culprits, and where the kernel flushes their memory.
    Tree,
    /// Those that interrupt one of these CPUs.
    Cpus(Vec<u32>),
}

impl Scope {
    /// As the programs know it.
    pub(crate) fn number(&self) -> u32 {
        match self {
            Self::All => layout::SCOPE_ALL,
            Self::Tree => layout::SCOPE_TREE,
            Self::Cpus(_) => layout::SCOPE_CPUS,
        }
    }
}

/// Of which shootdowns stacks are kept. Counts never depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stacks {
    /// Of none.
    None,
    /// Of one in so many, on each CPU.
    OneIn(NonZeroU32),
}

impl Stacks {
    /// Of all.
    pub const ALL: Self = Self::OneIn(NonZeroU32::MIN);
}

/// Which shootdowns are timed. Counts are of all, always, and records have times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timed {
    /// All.
    All,
    /// All of a CPU that makes no more than so many a second. Of one that makes more about so many are timed, drawn by
    /// chance, and stand for the others; [`quell_event::Tally::untimed`] has how many are not.
    AtMost(NonZeroU32),
}

impl Timed {
    /// For somebody who looks now, every second perhaps.
    pub const USUAL: Self = Self::AtMost(NonZeroU32::new(15_625).unwrap());
    /// For somebody who watches for days: in ten seconds that is still enough for a 99th percentile, and in a minute for a
    /// 99.9th.
    pub const SPARING: Self = Self::AtMost(NonZeroU32::new(250).unwrap());
}

/// What is kept of single shootdowns, besides the counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// Nothing.
    #[default]
    Counts,
    /// Some of them, for [`crate::Samples`].
    Samples,
    /// A record of each, for [`crate::Records`].
    Records,
}

/// What the probe is to do.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which shootdowns count.
    pub scope: Scope,
    /// What is kept besides the counts.
    pub keep: Keep,
    /// Of which shootdowns the records have stacks.
    pub stacks: Stacks,
    /// Size of the ring of records or samples, bytes; a power of two.
    pub ring_bytes: u32,
    /// Which shootdowns are timed.
    pub timed: Timed,
    /// How to see them; `None` for the first way that this kernel allows.
    pub backend: Option<Backend>,
    /// Tell culprits and victims apart by cgroup and not by process, with a scope of all: processes come and go, and the
    /// tables fill up. Tallies have no process then.
    pub by_cgroup: bool,
    /// Take pieces of the stacks of programs, to unwind those that keep no frame pointers.
    pub unwind: bool,
    /// Count all other function calls between CPUs as well.
    pub ipi: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            scope: Scope::All,
            keep: Keep::Counts,
            stacks: Stacks::ALL,
            ring_bytes: 64 << 20,
            timed: Timed::USUAL,
            backend: None,
            by_cgroup: false,
            unwind: false,
            ipi: false,
        }
    }
}
