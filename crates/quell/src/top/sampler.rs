//! The samples of everybody's shootdowns, from the probe to names for what lies there.

use std::collections::{HashMap, HashSet};
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use quell_event::trace::{EventRow, MissingNameReason, TracedStack};
use quell_event::{Cause, NO_STACK, Tally, TallySummary};
use quell_probe::{Probe, ShootdownSample, ShootdownSamples, StackResolver};

use super::regions::{Ahead, Regions, share_out};
use crate::report::code::Code;
use crate::report::places::Place;
use crate::report::regions::{Named, Regions as Names};

/// Enough to see what has a few percent, and too few to be felt.
const SAMPLES_A_SECOND: u64 = 250;
/// Before anything is known of the rate.
const FIRST: NonZeroU32 = NonZeroU32::new(16).expect("not 0");
/// Room for the samples of a moment in which the rate has jumped.
pub(super) const RING_BYTES: u32 = 256 << 10;
/// How old a process's mappings may get: to read them takes its mmap_lock.
const MAPS_AGE: Duration = Duration::from_secs(10);

/// Someone may watch for weeks. After so long, so many stacks or so many processes all of them are
/// forgotten, and the files of those that have ended are let go of.
const LONGEST: Duration = Duration::from_secs(300);
const MOST_STACKS: u32 = 1 << 13;
const MOST_PROCESSES: usize = 1 << 10;

/// Numbers for stacks.
#[derive(Default)]
struct Numbers {
    /// By process, word on top and addresses.
    known: HashMap<(u32, u64, Vec<u64>), u32>,
    next: u32,
}

impl Numbers {
    fn key(sample: &ShootdownSample) -> (u32, u64, Vec<u64>) {
        (sample.pid, sample.caller, sample.stack.clone())
    }

    /// The number of a sample's stack, and whether it is new.
    fn number(&mut self, sample: &ShootdownSample) -> (u32, bool) {
        let next = self.next;
        let number = *self.known.entry(Self::key(sample)).or_insert(next);
        let new = number == next;
        self.next += u32::from(new);
        (number, new)
    }

    /// Has the stack resolved anew when it comes again.
    fn forget(&mut self, sample: &ShootdownSample) {
        self.known.remove(&Self::key(sample));
    }
}

/// What is known of code and mappings.
struct Known {
    resolver: StackResolver,
    code: Code,
    numbers: Numbers,
    processes: HashSet<u32>,
    since: Instant,
}

impl Known {
    fn new(probe: &Probe) -> Self {
        Self {
            resolver: StackResolver::new(probe),
            code: Code::new([], []),
            numbers: Numbers::default(),
            processes: HashSet::new(),
            since: Instant::now(),
        }
    }

    fn is_old(&self) -> bool {
        self.numbers.next > MOST_STACKS
            || self.processes.len() > MOST_PROCESSES
            || self.since.elapsed() > LONGEST
    }
}

/// Reads the samples of a probe and names what lies there.
pub(super) struct Sampler {
    samples: ShootdownSamples,
    known: Known,
    /// Of this interval, with the number of the stack.
    taken: Vec<(ShootdownSample, i32)>,
    /// Stacks that are still to be named: that may take long, and is done once an interval.
    unnamed: Vec<TracedStack>,
    ahead: Ahead,
    drained: Instant,
    one_in: NonZeroU32,
}

impl Sampler {
    /// Of a probe that keeps samples.
    ///
    /// # Errors
    ///
    /// If the samples can't be reached, or the probe can't be told how many to take.
    pub(super) fn start(probe: &Probe) -> anyhow::Result<Self> {
        probe.sample_one_in(FIRST)?;
        Ok(Self {
            samples: ShootdownSamples::new(probe)?,
            known: Known::new(probe),
            taken: Vec::new(),
            unnamed: Vec::new(),
            ahead: Ahead::new(),
            drained: Instant::now(),
            one_in: FIRST,
        })
    }

    /// Reads what has come, and the mappings of new culprits before they are gone. Takes fewer from now
    /// on if far too many have come.
    ///
    /// # Errors
    ///
    /// If the samples can't be read, or the probe can't be told how many to take.
    pub(super) fn drain(&mut self, probe: &Probe) -> anyhow::Result<()> {
        let mut stand_for = 0;
        for sample in self.samples.take_samples()? {
            stand_for += u64::from(sample.every);
            let age = match sample.cause {
                Cause::Exec => Duration::ZERO,
                _ => MAPS_AGE,
            };
            self.known.processes.insert(sample.pid);
            self.known.resolver.read_mappings(sample.pid, age);
            let stack = self.number(&sample);
            self.taken.push((sample, stack));
        }
        let took = std::mem::replace(&mut self.drained, Instant::now()).elapsed();
        // what comes in a shorter time says little of the rate
        let ns = u64::try_from(took.max(Duration::from_millis(50)).as_nanos()).unwrap_or(u64::MAX);
        let every = one_in(stand_for, ns);
        if every.get() / 2 > self.one_in.get() {
            self.set(probe, every)?;
        }
        Ok(())
    }

    /// The number of a sample's stack, whose addresses are looked up while the process lives.
    fn number(&mut self, sample: &ShootdownSample) -> i32 {
        if sample.stack.is_empty() {
            return NO_STACK;
        }
        let (number, new) = self.known.numbers.number(sample);
        if new {
            let addresses = sample.stack.clone();
            let resolver = &mut self.known.resolver;
            let stack = resolver.user_stack(number, sample.pid, addresses, sample.caller);
            // its mappings were older than its code
            if stack.gone
                || stack
                    .frames
                    .iter()
                    .any(|f| f.mark == Some(MissingNameReason::Unmapped))
            {
                self.known.numbers.forget(sample);
            }
            self.unnamed.push(stack);
        }
        number.cast_signed()
    }

    /// Forgets what has come, as a new interval begins.
    ///
    /// # Errors
    ///
    /// As [`Self::drain`].
    pub(super) fn restart(&mut self, probe: &Probe) -> anyhow::Result<()> {
        self.drain(probe)?;
        self.taken.clear();
        self.ahead.clear();
        Ok(())
    }

    /// What came since the last call, of which `tally` and `summary` have the counts.
    ///
    /// # Errors
    ///
    /// As [`Self::drain`].
    pub(super) fn interval(
        &mut self,
        probe: &Probe,
        tally: &Tally,
        summary: &TallySummary,
    ) -> anyhow::Result<Regions> {
        self.drain(probe)?;
        let Known { resolver, code, .. } = &mut self.known;
        let mut stacks = std::mem::take(&mut self.unnamed);
        resolver.name_stacks(&mut stacks);
        code.learn(resolver.take_changed_processes(), stacks);
        let mut named = Named::new(Names::new(code));
        let taken = std::mem::take(&mut self.taken);
        let samples: Vec<(&ShootdownSample, u32)> = taken
            .iter()
            .map(|(s, stack)| {
                let row = EventRow {
                    pid: s.pid,
                    cause: s.cause,
                    own_mm: s.own_mm,
                    start: s.start,
                    end: s.end,
                    user_stack: *stack,
                    ..EventRow::default()
                };
                (s, named.number(&Place::of(&row, code.mappings())))
            })
            .collect();
        let stand_for: u64 = taken.iter().map(|(s, _)| u64::from(s.every)).sum();
        let shootdowns = taken.len() as u64;
        let regions = Regions {
            shootdowns,
            one_in: (stand_for + shootdowns / 2) / shootdowns.max(1),
            regions: share_out(
                &samples,
                named.names(),
                tally,
                &summary.culprits,
                &mut self.ahead,
            ),
        };
        let every = one_in(summary.shootdowns, tally.duration_ns);
        if every != self.one_in {
            self.set(probe, every)?;
        }
        if self.known.is_old() {
            self.known = Known::new(probe);
        }
        Ok(regions)
    }

    fn set(&mut self, probe: &Probe, every: NonZeroU32) -> anyhow::Result<()> {
        probe.sample_one_in(every)?;
        self.one_in = every;
        Ok(())
    }
}

/// One in how many, after so many shootdowns in so many ns.
fn one_in(shootdowns: u64, duration_ns: u64) -> NonZeroU32 {
    let a_second = u128::from(shootdowns) * 1_000_000_000 / u128::from(duration_ns.max(1));
    let every = u32::try_from(a_second / u128::from(SAMPLES_A_SECOND)).unwrap_or(u32::MAX);
    NonZeroU32::new(every).unwrap_or(NonZeroU32::MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that samples stay near their number at every rate, and that all are taken of few.
    #[test]
    fn samples_are_few() {
        const SECOND: u64 = 1_000_000_000;
        for (shootdowns, ns) in [(0, SECOND), (200, SECOND), (0, 0), (499, SECOND)] {
            let every = one_in(shootdowns, ns).get();
            assert_eq!(every, 1, "{shootdowns} in {ns} ns");
        }
        for rate in [1_000, 20_000, 123_456, 1_000_000] {
            let samples = rate / u64::from(one_in(rate, SECOND).get());
            assert!((200..=300).contains(&samples), "{rate}: {samples}");
        }
        assert_eq!(one_in(u64::MAX, 1), NonZeroU32::MAX);
    }

    /// Check that a stack keeps its number, that another one, another process or another caller has its
    /// own, and that one that is forgotten gets a new one.
    #[test]
    fn stacks_are_numbered() {
        let sample = |pid, caller, stack: &[u64]| ShootdownSample {
            pid,
            counted_as: pid,
            every: 1,
            cause: Cause::Munmap,
            own_mm: true,
            start: 0,
            end: 4096,
            stack: stack.to_vec(),
            caller,
        };
        let all = [
            sample(7, 1, &[10, 20]),
            sample(7, 2, &[10, 20]),
            sample(8, 1, &[10, 20]),
            sample(7, 1, &[10]),
        ];
        let mut numbers = Numbers::default();
        for round in 0..2 {
            for (i, s) in (0..).zip(&all) {
                assert_eq!(numbers.number(s), (i, round == 0));
            }
        }
        numbers.forget(&all[1]);
        assert_eq!(numbers.number(&all[1]), (4, true));
        assert_eq!(numbers.number(&all[2]), (2, false));
    }
}
