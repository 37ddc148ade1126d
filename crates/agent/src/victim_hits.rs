//! Interruptions of victims, as the totals and each cgroup sum them.

/// Interruptions of victims.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VictimHits {
    /// Their number.
    pub hits: u64,
    /// Their time in all, ns.
    pub stall_ns: u64,
}

impl VictimHits {
    /// Adds so many more, with so much time.
    pub(crate) fn add(&mut self, hits: u64, stall_ns: u64) {
        self.hits += hits;
        self.stall_ns += stall_ns;
    }
}
