//! Interruptions: they take a CPU from a thread that wants to run.

use serde::{Deserialize, Serialize};

use crate::named_enum;

named_enum! {
    /// Why a thread did not run for a moment. The order is that of precedence: where several lie in one gap, the
    /// first is its class, for the others are part of it or small beside it. It is also the order of the probe's numbers, from 0
    /// (`bpf/interruptions.h`).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    pub enum InterruptionKind with serde {
        /// Another thread ran on its CPU, against its will.
        Sched = "sched",
        /// A page fault of its own, with the waits in it.
        Fault = "fault",
        /// The handler of a shootdown.
        Tlb = "tlb",
        /// Another function that another CPU made this one run.
        Callfn = "callfn",
        /// A device, or another of the kernel's vectors.
        Irq = "irq",
        /// The CPU's own timer, with the kernel's work on that occasion.
        Timer = "timer",
        /// The interrupt of function calls, whatever ran in it: alone where another one had done the work.
        Vector = "vector",
        /// Work that an interrupt has left over, with interrupts on again: packets, timers of programs, RCU.
        Softirq = "softirq",
    }
}

impl InterruptionKind {
    /// Returns the kind with this number in the probe's records; `None` for a number that it doesn't use.
    #[must_use]
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.get(usize::try_from(number).ok()?).copied()
    }
}

/// One interruption of the thread that is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interruption {
    /// Why.
    pub kind: InterruptionKind,
    /// When it began, ns of `CLOCK_MONOTONIC`.
    pub begin_ns: u64,
    /// When it ended; as `begin_ns` for faults, whose end has no tracepoint.
    pub end_ns: u64,
    /// The process that asked for the call, or that the CPU was lost to; else 0.
    pub tgid: u32,
    /// Its thread.
    pub tid: u32,
}

/// The kernel's functions on both sides of shootdowns, innermost first: the way that most of them came, and all ways.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backtraces {
    /// Where the culprit sends the request.
    pub culprit: Vec<String>,
    /// Where the victim handles it.
    pub victim: Vec<String>,
    /// How many came and went this way.
    pub shootdowns: u64,
    /// Each path with the shootdowns that came by it, the most frequent first; none in files of quell from before they were kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ways: Vec<ShootdownPath>,
    /// Shootdowns that came by ways too rare to be kept.
    #[serde(default)]
    pub others: u64,
}

/// The path that some shootdowns have in common: the kernel's functions on both sides, innermost first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShootdownPath {
    /// Where the culprit sends the request.
    pub culprit: Vec<String>,
    /// Where the victim handles it.
    pub victim: Vec<String>,
    /// How many came and went this way.
    pub shootdowns: u64,
    /// The victim's time in their handlers, ns.
    pub stall_ns: u64,
}
