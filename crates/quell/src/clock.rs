//! Clocks: the time, and quell's own CPU time.

use rustix::time::{ClockId, clock_gettime};

/// The time by CLOCK_MONOTONIC, in ns: the clock of the probe.
pub(crate) fn monotonic_ns() -> u64 {
    clock_ns(ClockId::Monotonic)
}

/// The time since 1970, in ns.
pub(crate) fn wall_ns() -> u64 {
    clock_ns(ClockId::Realtime)
}

/// The time since the machine started, in ns, with the time that it slept.
pub(crate) fn boottime_ns() -> u64 {
    clock_ns(ClockId::Boottime)
}

/// The CPU time of all threads of this process so far, in ns.
pub(crate) fn own_cpu_ns() -> u64 {
    clock_ns(ClockId::ProcessCPUTime)
}

fn clock_ns(clock: ClockId) -> u64 {
    let t = clock_gettime(clock);
    u64::try_from(t.tv_sec * 1_000_000_000 + t.tv_nsec).unwrap_or(0)
}
