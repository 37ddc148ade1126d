//! One block as it was measured, on the probe's clock: the gaps of the victim and the operations of the culprit.

use crate::protocol::BlockResult;
use crate::tsc::{TickPair, TscLine};

/// A gap of the victim, ns of `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VictimGap {
    /// When it began.
    pub begin_ns: u64,
    /// Its length, ns.
    pub ns: u64,
}

impl VictimGap {
    /// When it ended.
    #[must_use]
    pub fn end_ns(&self) -> u64 {
        self.begin_ns + self.ns
    }
}

/// An operation of the culprit, ns of `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CulpritOp {
    /// When it began.
    pub begin_ns: u64,
    /// When it ended.
    pub end_ns: u64,
}

/// A block with all readings converted to one clock.
#[derive(Clone, Debug, Default)]
pub struct RawBlock {
    /// When the worker was ordered to begin.
    pub told_ns: u64,
    /// When the victim began to spin; 0 where it did not.
    pub begin_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// Turns of the spin that were no gaps: their length in ns and their number.
    pub turns: Vec<(u64, u64)>,
    /// The gaps, in order.
    pub gaps: Vec<VictimGap>,
    /// The operations, in order.
    pub ops: Vec<CulpritOp>,
}

impl RawBlock {
    /// Converts the readings that a worker has sent to ns.
    #[must_use]
    pub fn new(done: &BlockResult, gaps: &[TickPair], ops: &[TickPair]) -> Self {
        let line = TscLine::through_moments(done.from, done.to);
        let spun = done.spun != (0, 0);
        Self {
            told_ns: done.from.ns,
            begin_ns: if spun { line.ns_at(done.spun.0) } else { 0 },
            end_ns: if spun { line.ns_at(done.spun.1) } else { 0 },
            turns: done
                .turns
                .iter()
                .map(|&(ticks, n)| (line.ns_of_ticks(ticks.into()), n.into()))
                .collect(),
            gaps: gaps
                .iter()
                .map(|&(begin, ticks)| VictimGap {
                    begin_ns: line.ns_at(begin),
                    ns: line.ns_of_ticks(ticks),
                })
                .collect(),
            ops: ops
                .iter()
                .map(|&(begin, end)| CulpritOp {
                    begin_ns: line.ns_at(begin),
                    end_ns: line.ns_at(end),
                })
                .collect(),
        }
    }
}
