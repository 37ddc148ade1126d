//! Reads the samples of everybody's shootdowns from the probe, and names the regions at their ranges.

use std::collections::{HashMap, HashSet};
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use quell_event::trace::{EventRow, MissingNameReason, TracedStack};
use quell_event::{Cause, NO_STACK, Tally, TallySummary};
use quell_probe::{Probe, ShootdownSample, ShootdownSamples, StackResolver};

use super::regions::{SampledRegions, SharedAhead, share_out};
use crate::report::code::Code;
use crate::report::places::Place;
use crate::report::regions::NumberedRegions;

/// So many samples show a region with a few percent of the shootdowns, and are too few to slow the machine.
const SAMPLES_A_SECOND: u64 = 250;
/// The rate is not known yet when sampling begins.
const FIRST_ONE_IN: NonZeroU32 = NonZeroU32::new(16).expect("not 0");
/// The ring holds the samples of a moment in which the rate has jumped.
pub(super) const SAMPLE_RING_BYTES: u32 = 256 << 10;
/// Mappings may get so old before they are read again: reading them takes the process's mmap_lock.
const MAX_CULPRIT_MAPPINGS_AGE: Duration = Duration::from_secs(10);

/// Someone may watch for weeks. After so long, so many stacks or so many processes everything known is dropped, so that the files
/// of ended processes are closed.
const MAX_RESOLVED_CODE_AGE: Duration = Duration::from_secs(300);
const MAX_NUMBERED_STACKS: u32 = 1 << 13;
const MAX_SAMPLED_PROCESSES: usize = 1 << 10;

/// Gives each stack a number.
#[derive(Default)]
struct StackNumbers {
    /// The numbers by process, word on top of the stack and addresses.
    known: HashMap<(u32, u64, Vec<u64>), u32>,
    next: u32,
}

impl StackNumbers {
    fn stack_key(sample: &ShootdownSample) -> (u32, u64, Vec<u64>) {
        (sample.pid, sample.caller, sample.stack.clone())
    }

    /// The number of a sample's stack, and whether it is new.
    fn number_of(&mut self, sample: &ShootdownSample) -> (u32, bool) {
        let next = self.next;
        let number = *self.known.entry(Self::stack_key(sample)).or_insert(next);
        let new = number == next;
        self.next += u32::from(new);
        (number, new)
    }

    /// Lets the stack be resolved anew when it comes again.
    fn forget_stack(&mut self, sample: &ShootdownSample) {
        self.known.remove(&Self::stack_key(sample));
    }
}

/// The code and mappings that were read so far.
struct ResolvedCode {
    resolver: StackResolver,
    code: Code,
    numbers: StackNumbers,
    processes: HashSet<u32>,
    since: Instant,
}

impl ResolvedCode {
    fn new(probe: &Probe) -> Self {
        Self {
            resolver: StackResolver::new(probe),
            code: Code::new([], []),
            numbers: StackNumbers::default(),
            processes: HashSet::new(),
            since: Instant::now(),
        }
    }

    fn is_old(&self) -> bool {
        self.numbers.next > MAX_NUMBERED_STACKS
            || self.processes.len() > MAX_SAMPLED_PROCESSES
            || self.since.elapsed() > MAX_RESOLVED_CODE_AGE
    }
}

/// Reads the samples of a probe and names the regions at their ranges.
pub(super) struct RegionSampler {
    samples: ShootdownSamples,
    known: ResolvedCode,
    /// The samples of this interval, each with the number of its stack.
    taken: Vec<(ShootdownSample, i32)>,
    /// Stacks without names yet: naming them may take long, and is done once an interval.
    unnamed: Vec<TracedStack>,
    ahead: SharedAhead,
    drained: Instant,
    one_in: NonZeroU32,
}

impl RegionSampler {
    /// Starts to sample by a probe that keeps samples.
    ///
    /// # Errors
    ///
    /// If the samples can't be reached, or the probe refuses the rate of samples.
    pub(super) fn start(probe: &Probe) -> anyhow::Result<Self> {
        probe.sample_one_in(FIRST_ONE_IN)?;
        Ok(Self {
            samples: ShootdownSamples::new(probe)?,
            known: ResolvedCode::new(probe),
            taken: Vec::new(),
            unnamed: Vec::new(),
            ahead: SharedAhead::new(),
            drained: Instant::now(),
            one_in: FIRST_ONE_IN,
        })
    }

    /// Reads the samples that have come, and the mappings of new culprits before they are gone. Lowers the rate of samples if far
    /// too many have come.
    ///
    /// # Errors
    ///
    /// If the samples can't be read, or the probe refuses the rate of samples.
    pub(super) fn drain_samples(&mut self, probe: &Probe) -> anyhow::Result<()> {
        let mut stand_for = 0;
        for sample in self.samples.take_samples()? {
            stand_for += u64::from(sample.every);
            let age = match sample.cause {
                Cause::Exec => Duration::ZERO,
                _ => MAX_CULPRIT_MAPPINGS_AGE,
            };
            self.known.processes.insert(sample.pid);
            self.known.resolver.read_mappings(sample.pid, age);
            let stack = self.number_stack(&sample);
            self.taken.push((sample, stack));
        }
        let took = std::mem::replace(&mut self.drained, Instant::now()).elapsed();
        // samples of a shorter time say little about the rate
        let ns = u64::try_from(took.max(Duration::from_millis(50)).as_nanos()).unwrap_or(u64::MAX);
        let every = one_in_for_rate(stand_for, ns);
        if every.get() / 2 > self.one_in.get() {
            self.set_one_in(probe, every)?;
        }
        Ok(())
    }

    /// The number of a sample's stack, whose addresses are looked up while the process lives.
    fn number_stack(&mut self, sample: &ShootdownSample) -> i32 {
        if sample.stack.is_empty() {
            return NO_STACK;
        }
        let (number, new) = self.known.numbers.number_of(sample);
        if new {
            let addresses = sample.stack.clone();
            let resolver = &mut self.known.resolver;
            let stack = resolver.user_stack(number, sample.pid, addresses, sample.caller);
            // the mappings were older than the code
            if stack.gone
                || stack
                    .frames
                    .iter()
                    .any(|f| f.mark == Some(MissingNameReason::Unmapped))
            {
                self.known.numbers.forget_stack(sample);
            }
            self.unnamed.push(stack);
        }
        number.cast_signed()
    }

    /// Drops the samples that have come, as a new interval begins.
    ///
    /// # Errors
    ///
    /// As [`Self::drain_samples`].
    pub(super) fn restart_interval(&mut self, probe: &Probe) -> anyhow::Result<()> {
        self.drain_samples(probe)?;
        self.taken.clear();
        self.ahead.clear();
        Ok(())
    }

    /// Names the regions of the samples since the last call. `tally` and `summary` hold the counts of the same time.
    ///
    /// # Errors
    ///
    /// As [`Self::drain_samples`].
    pub(super) fn finish_interval(
        &mut self,
        probe: &Probe,
        tally: &Tally,
        summary: &TallySummary,
    ) -> anyhow::Result<SampledRegions> {
        self.drain_samples(probe)?;
        let ResolvedCode { resolver, code, .. } = &mut self.known;
        let mut stacks = std::mem::take(&mut self.unnamed);
        resolver.name_stacks(&mut stacks);
        code.add_newer_code(resolver.take_changed_processes(), stacks);
        let mut named = NumberedRegions::new(code);
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
                (s, named.number_of(&Place::of_row(&row, code.mappings())))
            })
            .collect();
        let stand_for: u64 = taken.iter().map(|(s, _)| u64::from(s.every)).sum();
        let shootdowns = taken.len() as u64;
        let regions = SampledRegions {
            shootdowns,
            one_in: (stand_for + shootdowns / 2) / shootdowns.max(1),
            regions: share_out(
                &samples,
                &named.into_names(),
                tally,
                &summary.culprits,
                &mut self.ahead,
            ),
        };
        let every = one_in_for_rate(summary.shootdowns, tally.duration_ns);
        if every != self.one_in {
            self.set_one_in(probe, every)?;
        }
        if self.known.is_old() {
            self.known = ResolvedCode::new(probe);
        }
        Ok(regions)
    }

    fn set_one_in(&mut self, probe: &Probe, every: NonZeroU32) -> anyhow::Result<()> {
        probe.sample_one_in(every)?;
        self.one_in = every;
        Ok(())
    }
}

/// One in how many shootdowns to sample, after so many of them in so many ns.
fn one_in_for_rate(shootdowns: u64, duration_ns: u64) -> NonZeroU32 {
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
        const ONE_SECOND_NS: u64 = 1_000_000_000;
        for (shootdowns, ns) in [
            (0, ONE_SECOND_NS),
            (200, ONE_SECOND_NS),
            (0, 0),
            (499, ONE_SECOND_NS),
        ] {
            let every = one_in_for_rate(shootdowns, ns).get();
            assert_eq!(every, 1, "{shootdowns} in {ns} ns");
        }
        for rate in [1_000, 20_000, 123_456, 1_000_000] {
            let samples = rate / u64::from(one_in_for_rate(rate, ONE_SECOND_NS).get());
            assert!((200..=300).contains(&samples), "{rate}: {samples}");
        }
        assert_eq!(one_in_for_rate(u64::MAX, 1), NonZeroU32::MAX);
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
        let mut numbers = StackNumbers::default();
        for round in 0..2 {
            for (i, s) in (0..).zip(&all) {
                assert_eq!(numbers.number_of(s), (i, round == 0));
            }
        }
        numbers.forget_stack(&all[1]);
        assert_eq!(numbers.number_of(&all[1]), (4, true));
        assert_eq!(numbers.number_of(&all[2]), (2, false));
    }
}
