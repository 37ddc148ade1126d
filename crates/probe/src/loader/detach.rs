//! Takes the probe away, and counts the rounds that were still under way.

use std::time::{Duration, Instant};

use libbpf_rs::ProgramInput;

use super::{Probe, SETTLE_PROGRAM, tlb_interrupts};
use crate::error::{Error, Result};
use crate::layout::ProbePhase;

/// A round is in flight for less than this, and a program that is being taken away runs for less.
const FLIGHT_TIME: Duration = Duration::from_millis(5);

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
        // From now on every round is timed. Once the untimed ones are over, victims no longer count themselves, because their
        // culprit may not be watched any more.
        self.set_counting(ProbePhase::Timed)?;
        std::thread::sleep(FLIGHT_TIME);
        self.set_counting(ProbePhase::Told)?;
        self.interrupts_ended = tlb_interrupts();
        // The program that begins rounds goes first, so that the rounds it saw are seen to their end.
        drop(self.links.pop());
        if let Some(ipi) = &mut self.ipi {
            ipi.stop();
        }
        self.ended = Some(Instant::now());
        std::thread::sleep(FLIGHT_TIME);
        self.links.clear();
        if let Some(ipi) = &mut self.ipi {
            ipi.detach();
        }
        std::thread::sleep(FLIGHT_TIME);
        self.settle_rounds(Duration::ZERO)
    }

    /// Tells the programs of every CPU which of them are attached.
    pub(super) fn set_counting(&mut self, counting: ProbePhase) -> Result<()> {
        /// No CPU has been quiet for so long, so none is settled.
        const LONGER_THAN_UPTIME: Duration = Duration::from_secs(100 * 366 * 86_400);
        self.counting = counting;
        self.settle_rounds(LONGER_THAN_UPTIME)
    }

    /// Counts every CPU's last rounds, which its next one would have counted: of the CPUs that have
    /// been quiet for so long, or, when nothing is attached any more, of all.
    pub(super) fn settle_rounds(&mut self, quiet: Duration) -> Result<()> {
        // The programs of functions have no such program: they count each round when its function returns.
        let settle = self.object.progs_mut().find(|p| p.name() == SETTLE_PROGRAM);
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
