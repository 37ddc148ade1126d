//! The samples of everybody's shootdowns, from the probe to names for what lies there.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::time::Duration;

use quell_event::trace::Row;
use quell_event::{NO_STACK, Tally};
use quell_probe::{Probe, Resolver, Sample, Samples};

use super::regions::{Regions, share_out};
use crate::report::code::Code;
use crate::report::places::Place;
use crate::report::regions::{Named, Regions as Names};

/// Enough to see what has a few percent, and too few to be felt.
const SAMPLES_A_SECOND: u64 = 250;
/// Room for the samples of a moment in which the rate has jumped.
pub(super) const RING_BYTES: u32 = 256 << 10;
/// How old a process's mappings may get: to read them takes its mmap_lock.
const MAPS_AGE: Duration = Duration::from_secs(10);
/// Where this many pieces of code are known, all of them are forgotten: someone may watch for weeks.
const MOST: usize = 1 << 13;

/// Reads the samples of a probe and names what lies there.
pub(super) struct Sampler {
    samples: Samples,
    resolver: Resolver,
    code: Code,
    /// Stacks that have been resolved, by process, word on top and addresses.
    known: HashMap<(u32, u64, Vec<u64>), u32>,
    /// Of this interval, with the number of the stack.
    taken: Vec<(Sample, i32)>,
    one_in: NonZeroU32,
}

impl Sampler {
    /// Of a probe that was attached with `sampling`.
    ///
    /// # Errors
    ///
    /// If the samples can't be reached.
    pub(super) fn start(probe: &Probe) -> anyhow::Result<Self> {
        Ok(Self {
            samples: Samples::new(probe)?,
            resolver: Resolver::new(probe),
            code: Code::new(HashMap::new(), []),
            known: HashMap::new(),
            taken: Vec::new(),
            one_in: NonZeroU32::MIN,
        })
    }

    /// Reads what has come, and the mappings of new culprits before they are gone.
    ///
    /// # Errors
    ///
    /// If the samples can't be read.
    pub(super) fn drain(&mut self) -> anyhow::Result<()> {
        let mut new = Vec::new();
        for sample in self.samples.take()? {
            self.resolver.see(sample.pid, MAPS_AGE);
            let mut stack = NO_STACK;
            if !sample.stack.is_empty() {
                let next = self.known.len() as u32;
                let key = (sample.pid, sample.caller, sample.stack.clone());
                let id = *self.known.entry(key).or_insert_with(|| {
                    new.push((next, sample.clone()));
                    next
                });
                stack = id.cast_signed();
            }
            self.taken.push((sample, stack));
        }
        if new.is_empty() {
            return Ok(());
        }
        let mut stacks: Vec<_> = new
            .into_iter()
            .map(|(id, s)| self.resolver.user_stack(id, s.pid, s.stack, s.caller))
            .collect();
        self.resolver.name(&mut stacks);
        self.code.learn(self.resolver.changed(), stacks);
        Ok(())
    }

    /// Forgets what has come, as a new interval begins.
    ///
    /// # Errors
    ///
    /// If the samples can't be read.
    pub(super) fn restart(&mut self) -> anyhow::Result<()> {
        self.drain()?;
        self.taken.clear();
        Ok(())
    }

    /// What came since the last call, of which `tally` has the counts.
    ///
    /// # Errors
    ///
    /// If the samples can't be read, or the probe can't be told how many to take.
    pub(super) fn interval(&mut self, probe: &Probe, tally: &Tally) -> anyhow::Result<Regions> {
        self.drain()?;
        self.code.learn(self.resolver.changed(), Vec::new());
        let mut named = Named::new(Names::new(&self.code));
        let taken = std::mem::take(&mut self.taken);
        let samples: Vec<(&Sample, u32)> = taken
            .iter()
            .map(|(s, stack)| {
                let row = Row {
                    pid: s.pid,
                    cause: s.cause,
                    start: s.start,
                    end: s.end,
                    user_stack: *stack,
                    ..Row::default()
                };
                (s, named.number(&Place::of(&row), s.start))
            })
            .collect();
        let regions = Regions {
            sampled: samples.len() as u64,
            one_in: self.one_in.get(),
            regions: share_out(&samples, named.names(), tally),
        };
        self.adapt(probe, tally)?;
        if self.known.len() > MOST {
            self.resolver = Resolver::new(probe);
            self.code = Code::new(HashMap::new(), []);
            self.known.clear();
        }
        Ok(regions)
    }

    /// Takes more or fewer from now on, as the rate was.
    fn adapt(&mut self, probe: &Probe, tally: &Tally) -> anyhow::Result<()> {
        let every = one_in(tally.totals().shootdowns, tally.duration_ns);
        if every != self.one_in {
            probe.sample_one_in(every)?;
            self.one_in = every;
        }
        Ok(())
    }
}

/// One in how many, after so many shootdowns in so many ns.
fn one_in(shootdowns: u64, duration_ns: u64) -> NonZeroU32 {
    let a_second = u128::from(shootdowns) * 1_000_000_000 / u128::from(duration_ns.max(1));
    let every = u32::try_from(a_second / u128::from(SAMPLES_A_SECOND)).unwrap_or(u32::MAX);
    // an odd number does not beat in time with what programs do in pairs
    NonZeroU32::new(every | 1).unwrap_or(NonZeroU32::MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that samples stay near their number at every rate, and that all are taken of few.
    #[test]
    fn samples_are_few() {
        const SECOND: u64 = 1_000_000_000;
        for (shootdowns, ns) in [(0, SECOND), (1, 1), (200, SECOND), (0, 0), (499, SECOND)] {
            let every = one_in(shootdowns, ns).get();
            assert!(ns == 1 || every == 1, "{shootdowns} in {ns} ns: {every}");
        }
        for rate in [1_000, 20_000, 123_456, 1_000_000] {
            let samples = rate / u64::from(one_in(rate, SECOND).get());
            assert!((150..=500).contains(&samples), "{rate}: {samples}");
        }
        assert_eq!(one_in(u64::MAX, 1), NonZeroU32::MAX);
    }
}
