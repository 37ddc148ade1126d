//! The cost of memory management between two looks of somebody who watches a machine for months.

use crate::{Mechanism, Text};

/// The cost of a mechanism in a cgroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CgroupCost {
    /// The cgroup's id in the v2 hierarchy.
    pub cgroup: u64,
    /// The work of the kernel.
    pub mechanism: Mechanism,
    /// Samples of CPU time.
    pub samples: u64,
    /// How often a thread was made to sleep.
    pub sleeps: u64,
    /// How long those sleeps took, ns; counted when the thread runs again.
    pub blocked_ns: u64,
}

/// The cost of a mechanism in one stack of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeCost {
    /// The process.
    pub pid: u32,
    /// Its name.
    pub comm: Text,
    /// Its cgroup's id in the v2 hierarchy.
    pub cgroup: u64,
    /// The work of the kernel.
    pub mechanism: Mechanism,
    /// Samples of CPU time.
    pub samples: u64,
    /// The program's stack by its frame pointers, the innermost first; empty where there is none, or it was not asked for.
    pub addresses: Vec<u64>,
}

/// All that was counted between two looks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchInterval {
    /// How far apart samples of one CPU are, ns.
    pub period_ns: u64,
    /// Whether sleeps are looked at.
    pub sees_sleeps: bool,
    /// The cost by cgroup and mechanism, without work that is no memory management.
    pub rows: Vec<CgroupCost>,
    /// Of the samples of `rows`.
    pub code: Vec<CodeCost>,
    /// Samples that found no room.
    pub lost_samples: u64,
    /// Sleeps that found no room.
    pub lost_sleeps: u64,
}

impl WatchInterval {
    /// Returns the CPU time that so many samples stand for, ns.
    #[must_use]
    pub fn cpu_ns(&self, samples: u64) -> u64 {
        samples.saturating_mul(self.period_ns)
    }
}
