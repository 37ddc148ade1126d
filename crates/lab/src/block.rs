//! One block as it was measured: what the victim saw, what the culprit did, on the probe's clock.

use serde::{Deserialize, Serialize};

use crate::protocol::{Done, Stamp};
use crate::tsc::Line;

/// What a block is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arm {
    /// No culprit.
    Idle,
    /// The same culprit in an address space of its own.
    Sham,
    /// The culprit in the victim's address space.
    Real,
    /// The same, while the probe is taken away: what it costs to watch.
    Untraced,
}

impl Arm {
    /// Those that a round is made of.
    pub const ALL: [Self; 4] = [Self::Idle, Self::Sham, Self::Real, Self::Untraced];

    /// As in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Sham => "sham",
            Self::Real => "real",
            Self::Untraced => "untraced",
        }
    }
}

/// A gap of the victim, ns of `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// When it began.
    pub begin_ns: u64,
    /// How long it was.
    pub ns: u64,
}

impl Gap {
    /// When it ended.
    #[must_use]
    pub fn end_ns(&self) -> u64 {
        self.begin_ns + self.ns
    }
}

/// An operation of the culprit, ns of `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Op {
    /// When it began.
    pub begin_ns: u64,
    /// When it ended.
    pub end_ns: u64,
}

/// A block, on one clock.
#[derive(Clone, Debug, Default)]
pub struct Raw {
    /// When the worker was told to begin.
    pub told_ns: u64,
    /// When the victim began to spin; 0 where it did not.
    pub begin_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// Turns of the spin that were no gaps: ns and how many.
    pub turns: Vec<(u64, u64)>,
    /// The gaps, in order.
    pub gaps: Vec<Gap>,
    /// The operations, in order.
    pub ops: Vec<Op>,
}

impl Raw {
    /// From what a worker has sent.
    #[must_use]
    pub fn new(done: &Done, gaps: &[Stamp], ops: &[Stamp]) -> Self {
        let line = Line::through(done.from, done.to);
        let spun = done.spun != (0, 0);
        Self {
            told_ns: done.from.ns,
            begin_ns: if spun { line.at(done.spun.0) } else { 0 },
            end_ns: if spun { line.at(done.spun.1) } else { 0 },
            turns: done
                .turns
                .iter()
                .map(|&(ticks, n)| (line.length(ticks.into()), n.into()))
                .collect(),
            gaps: gaps
                .iter()
                .map(|&(begin, ticks)| Gap {
                    begin_ns: line.at(begin),
                    ns: line.length(ticks),
                })
                .collect(),
            ops: ops
                .iter()
                .map(|&(begin, end)| Op {
                    begin_ns: line.at(begin),
                    end_ns: line.at(end),
                })
                .collect(),
        }
    }
}
