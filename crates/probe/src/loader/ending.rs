//! Takes the probe away, and counts what was still under way.

use std::time::{Duration, Instant};

use libbpf_rs::ProgramInput;

use super::{Probe, SETTLE, interrupts};
use crate::error::{Error, Result};
use crate::layout::ProbePhase;

/// Longer than a round is in flight, and than a program that is being taken away still runs.
const FLIGHT: Duration = Duration::from_millis(5);

impl Probe {
    /// Stops counting; the counts stay.
    ///
    /// # Errors
    ///
    /// If the last rounds can't be settled: their victims' times are missing then.
    pub fn detach(&mut self) -> Result<()> {
        if self.ended.is_some() {
            return Ok(());
        }
        // From now on every round is timed; once those that are not are over, victims no longer count themselves: their
        // culprit may not be watched any more.
        self.set_counting(ProbePhase::Timed)?;
        std::thread::sleep(FLIGHT);
        self.set_counting(ProbePhase::Told)?;
        self.interrupts_ended = interrupts();
        // first what begins rounds: those that it saw are to be seen to their end
        drop(self.links.pop());
        if let Some(ipi) = &mut self.ipi {
            ipi.stop();
        }
        self.ended = Some(Instant::now());
        std::thread::sleep(FLIGHT);
        self.links.clear();
        if let Some(ipi) = &mut self.ipi {
            ipi.detach();
        }
        std::thread::sleep(FLIGHT);
        self.settle(Duration::ZERO)
    }

    /// Tells the programs of every CPU which of them are attached.
    pub(super) fn set_counting(&mut self, counting: ProbePhase) -> Result<()> {
        /// No CPU has been quiet for so long: none is settled.
        const YEARS: Duration = Duration::from_secs(100 * 366 * 86_400);
        self.counting = counting;
        self.settle(YEARS)
    }

    /// Counts every CPU's last rounds, which its next one would have counted: of the CPUs that have
    /// been quiet for so long, or, when nothing is attached any more, of all.
    pub(super) fn settle(&mut self, quiet: Duration) -> Result<()> {
        // with functions' exits, nothing is left
        let settle = self.object.progs_mut().find(|p| p.name() == SETTLE);
        let Some(settle) = settle else { return Ok(()) };
        let quiet = u64::try_from(quiet.as_nanos()).unwrap_or(u64::MAX);
        for cpu in 0..self.cpus {
            let mut arguments = [0; 24];
            arguments[..8].copy_from_slice(&u64::from(cpu).to_ne_bytes());
            arguments[8..16].copy_from_slice(&quiet.to_ne_bytes());
            arguments[16..].copy_from_slice(&u64::from(self.counting as u32).to_ne_bytes());
            let input = ProgramInput {
                context_in: Some(&mut arguments),
                ..ProgramInput::default()
            };
            settle
                .test_run(input)
                .map_err(Error::load("run the eBPF program that settles shootdowns"))?;
        }
        Ok(())
    }
}
