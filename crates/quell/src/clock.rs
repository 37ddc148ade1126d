//! The time, and quell's own cost.

use rustix::time::{ClockId, clock_gettime};

/// Now, ns of CLOCK_MONOTONIC: the clock of the probe.
pub(crate) fn monotonic_ns() -> u64 {
    ns(ClockId::Monotonic)
}

/// Now, ns since 1970.
pub(crate) fn wall_ns() -> u64 {
    ns(ClockId::Realtime)
}

/// Since the machine started, ns, with the time that it slept.
pub(crate) fn boottime_ns() -> u64 {
    ns(ClockId::Boottime)
}

/// CPU time that this process has used so far, all threads, ns.
pub(crate) fn own_cpu_ns() -> u64 {
    ns(ClockId::ProcessCPUTime)
}

fn ns(clock: ClockId) -> u64 {
    let t = clock_gettime(clock);
    u64::try_from(t.tv_sec * 1_000_000_000 + t.tv_nsec).unwrap_or(0)
}
