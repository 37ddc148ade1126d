//! The time stamp counter, and how it runs against `CLOCK_MONOTONIC`, the probe's clock.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// The counter, read when all before it is done: RDTSCP waits for that, and LFENCE keeps what follows from
/// beginning early (Intel SDM volume 2, RDTSCP).
#[cfg(target_arch = "x86_64")]
#[inline(always)]
#[must_use]
pub fn now() -> u64 {
    let mut cpu = 0;
    // SAFETY: both instructions are in every x86-64 CPU that `is_usable` accepts; they touch no memory but `cpu`.
    unsafe {
        let tsc = core::arch::x86_64::__rdtscp(&raw mut cpu);
        core::arch::x86_64::_mm_lfence();
        tsc
    }
}

/// There is no such counter: nanoseconds, so that the crate builds.
#[cfg(not(target_arch = "x86_64"))]
#[must_use]
pub fn now() -> u64 {
    monotonic_ns()
}

/// Whether the counter runs at one rate whatever the CPU does (CPUID 0x80000007, EDX bit 8) and can be read with
/// RDTSCP (0x80000001, EDX bit 27). Linux keeps the counters of all CPUs together or gives them up.
#[cfg(target_arch = "x86_64")]
#[must_use]
pub fn is_usable() -> bool {
    use core::arch::x86_64::__cpuid;
    if __cpuid(0x8000_0000).eax < 0x8000_0007 {
        return false;
    }
    __cpuid(0x8000_0007).edx & (1 << 8) != 0 && __cpuid(0x8000_0001).edx & (1 << 27) != 0
}

/// The lab needs an x86-64 CPU.
#[cfg(not(target_arch = "x86_64"))]
#[must_use]
pub fn is_usable() -> bool {
    false
}

/// Now, ns of `CLOCK_MONOTONIC`.
#[must_use]
pub fn monotonic_ns() -> u64 {
    let t = clock_gettime(ClockId::Monotonic);
    u64::try_from(t.tv_sec * 1_000_000_000 + t.tv_nsec).unwrap_or(0)
}

/// A length of time as both clocks and the workers have it.
#[must_use]
pub fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// One moment on both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    /// Of the counter.
    pub tsc: u64,
    /// Of `CLOCK_MONOTONIC`.
    pub ns: u64,
}

impl Moment {
    /// Now: of several readings that in which the least time passed between the two readings of the counter, so that
    /// an interrupt in the middle moves nothing.
    #[must_use]
    pub fn now() -> Self {
        let read = || {
            let before = now();
            let ns = monotonic_ns();
            let after = now();
            let middle = before + (after - before) / 2;
            (after - before, Self { tsc: middle, ns })
        };
        let mut best = read();
        for _ in 0..15 {
            let next = read();
            if next.0 < best.0 {
                best = next;
            }
        }
        best.1
    }
}

/// Turns readings of the counter into ns: the line through two moments. NTP bends `CLOCK_MONOTONIC` by up to 500 ppm
/// and slowly (adjtimex(2)), so that a line holds for a block of a second within some ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    from: Moment,
    ns_per_tick: f64,
}

impl Line {
    /// Through these two; one tick a ns where they are the same.
    #[must_use]
    pub fn through(from: Moment, to: Moment) -> Self {
        let ticks = to.tsc.saturating_sub(from.tsc);
        let ns_per_tick = if ticks == 0 {
            1.0
        } else {
            to.ns.saturating_sub(from.ns) as f64 / ticks as f64
        };
        Self { from, ns_per_tick }
    }

    /// When the counter read so.
    #[must_use]
    pub fn at(&self, tsc: u64) -> u64 {
        if tsc >= self.from.tsc {
            self.from.ns + self.length(tsc - self.from.tsc)
        } else {
            self.from
                .ns
                .saturating_sub(self.length(self.from.tsc - tsc))
        }
    }

    /// How long so many ticks are, ns.
    #[must_use]
    pub fn length(&self, ticks: u64) -> u64 {
        (ticks as f64 * self.ns_per_tick).round() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that the line meets both of its moments, and goes on beyond them at the same rate.
    #[test]
    fn line_meets_its_moments() {
        let from = Moment { tsc: 1000, ns: 50 };
        let to = Moment {
            tsc: 3000,
            ns: 1050,
        };
        let line = Line::through(from, to);
        assert_eq!(
            [1000, 3000, 5000, 900].map(|t| line.at(t)),
            [50, 1050, 2050, 0]
        );
        assert_eq!(line.length(7), 4);
        assert_eq!(Line::through(from, from).at(1005), 55);
    }

    /// Check that the counter goes forward and agrees with the clock over a few ms, within one part in a hundred.
    #[test]
    fn counter_agrees_with_the_clock() {
        if !is_usable() {
            return;
        }
        let from = Moment::now();
        std::thread::sleep(Duration::from_millis(20));
        let middle = Moment::now();
        std::thread::sleep(Duration::from_millis(20));
        let line = Line::through(from, Moment::now());
        let off = line.at(middle.tsc).abs_diff(middle.ns);
        assert!(off < 400_000, "{off} ns off in the middle of 40 ms");
    }
}
