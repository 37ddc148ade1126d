//! The time stamp counter, and its relation to `CLOCK_MONOTONIC`, the probe's clock.

use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// The counter, read when all before it is done: RDTSCP waits for that, and LFENCE keeps later instructions from beginning early
/// (Intel SDM volume 2, RDTSCP).
#[cfg(target_arch = "x86_64")]
#[inline(always)]
#[must_use]
pub fn read_tsc() -> u64 {
    let mut cpu = 0;
    // SAFETY: both instructions are in every x86-64 CPU that `tsc_quality` accepts; they touch no memory but `cpu`.
    unsafe {
        let tsc = core::arch::x86_64::__rdtscp(&raw mut cpu);
        core::arch::x86_64::_mm_lfence();
        tsc
    }
}

/// Other CPUs have no such counter: this reads nanoseconds, so that the crate builds.
#[cfg(not(target_arch = "x86_64"))]
#[must_use]
pub fn read_tsc() -> u64 {
    monotonic_ns()
}

/// The quality of the counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TscQuality {
    /// The CPU promises that it runs at one rate whatever the CPU does. Linux keeps the counters of all CPUs together or
    /// gives them up.
    #[default]
    Promised,
    /// The CPU promises nothing, as under emulation; it was measured beside `CLOCK_MONOTONIC`, on all CPUs, for a moment.
    Measured,
}

/// How far a counter that promises nothing may be from the line through its first and last reading, ns. Gaps are laid beside the
/// probe's records by both clocks: a larger error shows as shootdowns that lie in no gap.
const MAX_OFFSET_NS: u64 = 50_000;

/// The number of readings of such a counter, and the time between two.
const CHECK_READINGS: usize = 8;
const READING_PAUSE: Duration = Duration::from_millis(10);

/// The quality of the counter, if it can be used; found out once, for to measure it takes a tenth of a second.
///
/// # Errors
///
/// Why it can't, in words.
pub fn tsc_quality() -> Result<TscQuality, String> {
    static KNOWN_QUALITY: OnceLock<Result<TscQuality, String>> = OnceLock::new();
    KNOWN_QUALITY.get_or_init(check_tsc).clone()
}

/// It must be read with RDTSCP (CPUID 0x80000001, EDX bit 27), and run at one rate (0x80000007, EDX bit 8).
#[cfg(target_arch = "x86_64")]
fn check_tsc() -> Result<TscQuality, String> {
    use core::arch::x86_64::__cpuid;
    let edx = |leaf| (__cpuid(0x8000_0000).eax >= leaf).then(|| __cpuid(leaf).edx);
    let has = |leaf, bit: u32| edx(leaf).is_some_and(|edx| edx & (1_u32 << bit) != 0);
    if !has(0x8000_0001, 27) {
        return Err("this CPU can't read its time stamp counter in order (flag rdtscp)".to_owned());
    }
    if has(0x8000_0007, 8) {
        return Ok(TscQuality::Promised);
    }
    match largest_offset_ns() {
        Ok(off) if off <= MAX_OFFSET_NS => Ok(TscQuality::Measured),
        Ok(off) => Err(format!(
            "this CPU's time stamp counter does not run at one rate: it promises nothing (flag nonstop_tsc), and was {} µs \
             off beside the clock",
            off / 1000
        )),
        Err(err) => Err(format!(
            "this CPU promises no time stamp counter that runs at one rate (flag nonstop_tsc), and it can't be measured: {err}"
        )),
    }
}

/// The lab needs an x86-64 CPU.
#[cfg(not(target_arch = "x86_64"))]
fn check_tsc() -> Result<TscQuality, String> {
    Err("this CPU has no time stamp counter: the lab takes an x86-64 CPU".to_owned())
}

/// Measures by reading the counter and the clock on one CPU after the other, with pauses of 10 ms: the largest distance of a reading
/// from the line, ns.
#[cfg(target_arch = "x86_64")]
fn largest_offset_ns() -> std::io::Result<u64> {
    let cpus = crate::pin::allowed_cpus()?;
    let mut readings = Vec::new();
    let read = |readings: &mut Vec<TscMoment>| {
        for cpu in cpus.iter().cycle().take(CHECK_READINGS.max(cpus.len() + 1)) {
            crate::pin::pin_self(&[*cpu])?;
            readings.push(TscMoment::read_tsc());
            thread::sleep(READING_PAUSE);
        }
        Ok(())
    };
    let done = read(&mut readings);
    crate::pin::pin_self(&cpus)?;
    done.map(|()| offset_from_line_ns(&readings))
}

/// The largest distance of a reading from the line through the first and the last, ns.
fn offset_from_line_ns(readings: &[TscMoment]) -> u64 {
    let (Some(first), Some(last)) = (readings.first(), readings.last()) else {
        return 0;
    };
    // A counter that goes backwards has no line.
    if !readings.is_sorted_by_key(|r| r.tsc) {
        return u64::MAX;
    }
    let line = TscLine::through_moments(*first, *last);
    let off = readings.iter().map(|r| line.ns_at(r.tsc).abs_diff(r.ns));
    off.max().unwrap_or(0)
}

/// The time of `CLOCK_MONOTONIC`, ns.
#[must_use]
pub fn monotonic_ns() -> u64 {
    let t = clock_gettime(ClockId::Monotonic);
    u64::try_from(t.tv_sec * 1_000_000_000 + t.tv_nsec).unwrap_or(0)
}

/// A length of time in ns, as both clocks and the workers have it.
#[must_use]
pub fn duration_ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// A beginning and either a length (gaps) or an end (operations, spins), ticks.
pub type TickPair = (u64, u64);

/// One moment on both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TscMoment {
    /// The reading of the counter.
    pub tsc: u64,
    /// The time of `CLOCK_MONOTONIC`.
    pub ns: u64,
}

impl TscMoment {
    /// The present moment: of several readings the one in which the least time passed between the two readings of the counter, so
    /// that an interrupt in the middle moves nothing.
    #[must_use]
    pub fn read_tsc() -> Self {
        let read = || {
            let before = read_tsc();
            let ns = monotonic_ns();
            let after = read_tsc();
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

/// Converts readings of the counter to ns, by the line through two moments. NTP bends `CLOCK_MONOTONIC` by up to 500 ppm and
/// slowly (adjtimex(2)), so that a line holds for a block of a second within some ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TscLine {
    from: TscMoment,
    pub(crate) ns_per_tick: f64,
}

impl TscLine {
    /// The line through these two; one tick is a ns where they are the same. A clock that stands still goes on by one, so that a
    /// time has an end in ticks.
    #[must_use]
    pub fn through_moments(from: TscMoment, to: TscMoment) -> Self {
        let ticks = to.tsc.saturating_sub(from.tsc);
        let ns_per_tick = if ticks == 0 {
            1.0
        } else {
            to.ns.saturating_sub(from.ns).max(1) as f64 / ticks as f64
        };
        Self { from, ns_per_tick }
    }

    /// The line through this moment and one so much later, for which the thread sleeps.
    #[must_use]
    pub fn measure(pause: Duration) -> Self {
        let from = TscMoment::read_tsc();
        thread::sleep(pause);
        Self::through_moments(from, TscMoment::read_tsc())
    }

    /// The time at which the counter read this.
    #[must_use]
    pub fn ns_at(&self, tsc: u64) -> u64 {
        if tsc >= self.from.tsc {
            self.from.ns + self.ns_of_ticks(tsc - self.from.tsc)
        } else {
            self.from
                .ns
                .saturating_sub(self.ns_of_ticks(self.from.tsc - tsc))
        }
    }

    /// The length of so many ticks, ns.
    #[must_use]
    pub fn ns_of_ticks(&self, ticks: u64) -> u64 {
        (ticks as f64 * self.ns_per_tick).round() as u64
    }

    /// So many ns in ticks.
    #[must_use]
    pub fn ticks_of_ns(&self, ns: u64) -> u64 {
        (ns as f64 / self.ns_per_tick) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that the line meets both of its moments, and goes on beyond them at the same rate.
    #[test]
    fn line_meets_its_moments() {
        let from = TscMoment { tsc: 1000, ns: 50 };
        let to = TscMoment {
            tsc: 3000,
            ns: 1050,
        };
        let line = TscLine::through_moments(from, to);
        assert_eq!(
            [1000, 3000, 5000, 900].map(|t| line.ns_at(t)),
            [50, 1050, 2050, 0]
        );
        assert_eq!((line.ns_of_ticks(7), line.ticks_of_ns(7)), (4, 14));
        assert_eq!(TscLine::through_moments(from, from).ns_at(1005), 55);
    }

    /// Check that readings on a line are near it, that one that is not is far, and that a counter that goes backwards is
    /// refused.
    #[test]
    fn counters_that_promise_nothing() {
        let reading = |tsc: u64, ns: u64| TscMoment { tsc, ns };
        let even: Vec<_> = (0..8).map(|i| reading(i * 3000, i * 1000)).collect();
        assert!(offset_from_line_ns(&even) <= 1);
        let mut late = even.clone();
        late[4].ns += 70;
        assert_eq!(offset_from_line_ns(&late), 70);
        let mut back = even;
        back[4].tsc = 0;
        assert_eq!(offset_from_line_ns(&back), u64::MAX);
        assert_eq!(offset_from_line_ns(&[]), 0);
    }

    /// Check that this machine's counter is one that keeps to its line, whatever it promises.
    #[test]
    #[cfg(target_arch = "x86_64")]
    fn this_counter_keeps_to_its_line() {
        if tsc_quality().is_err() {
            return;
        }
        let before = crate::pin::allowed_cpus().unwrap();
        // what is put off its CPU between two readings is far off, but not each time
        let off: Vec<u64> = (0..10).map(|_| largest_offset_ns().unwrap()).collect();
        assert!(off.iter().any(|ns| *ns < 1_000_000), "{off:?} ns off");
        assert_eq!(crate::pin::allowed_cpus().unwrap(), before);
    }

    /// Check that the counter goes forward and agrees with the clock over a few ms, within one part in a hundred.
    #[test]
    fn counter_agrees_with_the_clock() {
        if tsc_quality().is_err() {
            return;
        }
        let off = || {
            let from = TscMoment::read_tsc();
            thread::sleep(Duration::from_millis(20));
            let middle = TscMoment::read_tsc();
            thread::sleep(Duration::from_millis(20));
            let line = TscLine::through_moments(from, TscMoment::read_tsc());
            line.ns_at(middle.tsc).abs_diff(middle.ns)
        };
        // as above
        let off: Vec<u64> = (0..10).map(|_| off()).collect();
        assert!(
            off.iter().any(|ns| *ns < 400_000),
            "{off:?} ns off in the middle of 40 ms"
        );
    }
}
