//! What memory management cost between two looks of somebody who watches a machine for months.

use crate::{Mechanism, Text};

/// By cgroup and mechanism.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedRow {
    /// The cgroup's id in the v2 hierarchy.
    pub cgroup: u64,
    /// What the kernel did.
    pub mechanism: Mechanism,
    /// Samples of CPU time.
    pub samples: u64,
    /// How often a thread was made to sleep.
    pub sleeps: u64,
    /// How long those sleeps took, ns; counted when the thread runs again.
    pub blocked_ns: u64,
}

/// By code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedCode {
    /// The process.
    pub pid: u32,
    /// Its name.
    pub comm: Text,
    /// Its cgroup's id in the v2 hierarchy.
    pub cgroup: u64,
    /// What the kernel did.
    pub mechanism: Mechanism,
    /// Samples of CPU time.
    pub samples: u64,
    /// The program's stack by its frame pointers, the innermost first; empty where there is none, or it was not asked for.
    pub addresses: Vec<u64>,
}

/// Between two looks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watched {
    /// How far apart samples of one CPU are, ns.
    pub period_ns: u64,
    /// Whether sleeps are looked at.
    pub sees_sleeps: bool,
    /// Without what is no memory management.
    pub rows: Vec<WatchedRow>,
    /// Of the samples of `rows`.
    pub code: Vec<WatchedCode>,
    /// Samples that found no room.
    pub lost_samples: u64,
    /// Sleeps that found no room.
    pub lost_sleeps: u64,
}

impl Watched {
    /// CPU time that so many samples stand for, ns.
    #[must_use]
    pub fn cpu_ns(&self, samples: u64) -> u64 {
        samples.saturating_mul(self.period_ns)
    }
}
