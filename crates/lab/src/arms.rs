//! One block of one arm: who is told to begin, what is read meanwhile, and whether it counts.

use std::io;
use std::time::{Duration, Instant};

use quell_event::Interruption;

use crate::around::Watch;
use crate::attribute::{Blame, attribute};
use crate::block::{Arm, Raw};
use crate::daemons::daemons;
use crate::experiment::{Invalid, Measured, Options};
use crate::mechanism::{Mechanism, Timing};
use crate::process::{Stop, Worker};
use crate::protocol::Block;
use crate::tsc::nanoseconds;

/// The smallest share of a block in which the victim must have run.
const LEAST_RUN: u64 = 5;

/// The processes of an experiment.
pub(crate) struct Workers {
    /// Victim and culprit in one.
    pub(crate) both: Worker,
    /// A culprit in a process of its own.
    pub(crate) sham: Worker,
    /// Whether somebody wants it to end.
    pub(crate) stop: Stop,
}

impl Workers {
    /// Runs a block of an arm.
    pub(crate) fn block(
        &mut self,
        arm: Arm,
        options: &Options,
        mechanism: &Mechanism,
        watch: &mut dyn Watch,
    ) -> anyhow::Result<Measured> {
        let once_after_ns = match mechanism.timing {
            Timing::Repeated | Timing::Slow { .. } => None,
            Timing::Once { after_ms, .. } => Some(after_ms * 1_000_000),
        };
        if once_after_ns.is_some() {
            match arm {
                Arm::Idle => {}
                Arm::Sham => self.sham.prepare()?,
                Arm::Real | Arm::Untraced => self.both.prepare()?,
            }
        }
        let block = |operate| Block {
            ns: nanoseconds(options.block),
            operate,
            pace_ns: nanoseconds(options.pace),
            once_after_ns,
        };
        if let Some(switch) = mechanism.switch {
            switch(matches!(arm, Arm::Real | Arm::Untraced))?;
        }
        if arm == Arm::Untraced {
            watch.pause();
        } else {
            watch.resume()?;
        }
        // what fell between the blocks is nobody's
        watch.take()?;
        let lost = watch.lost()?;
        let sham = arm == Arm::Sham;
        if sham {
            self.sham.begin(block(true))?;
        }
        self.both
            .begin(block(arm == Arm::Real || arm == Arm::Untraced))?;
        let mut seen = Vec::new();
        self.wait(options.block, watch, &mut seen)?;
        let mut raw = self.both.end()?;
        let culprit = if sham {
            // its operations are the culprit's, the gaps are the victim's
            raw.ops = self.sham.end()?.ops;
            self.sham.pid()
        } else {
            self.both.pid()
        };
        seen.append(&mut watch.take()?);
        let lost = watch.lost()? > lost;
        // now, for the kernel's workers come and go
        let daemons = daemons(mechanism.daemons);
        let whole = nanoseconds(options.block);
        let asleep = raw.begin_ns == 0;
        let raw = if asleep {
            without_gaps(raw, whole)
        } else {
            raw
        };
        let blame = Blame {
            is_culprit: &|tgid| tgid == culprit || daemons.contains(&tgid),
            faults: mechanism.makes_faults,
        };
        let block = attribute(raw, seen, &blame);
        let invalid = if lost {
            Some(Invalid::Lost)
        } else if !asleep && block.ran_ns() < whole / LEAST_RUN {
            Some(Invalid::Away)
        } else if arm != Arm::Idle && !block.is_operated() {
            Some(Invalid::NoOperation)
        } else {
            None
        };
        Ok(Measured {
            arm,
            block,
            invalid,
        })
    }

    /// Reads the probe now and then, so that its ring does not fill.
    fn wait(
        &mut self,
        time: Duration,
        watch: &mut dyn Watch,
        seen: &mut Vec<Interruption>,
    ) -> anyhow::Result<()> {
        const NAP: Duration = Duration::from_millis(100);
        let until = Instant::now() + time;
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            std::thread::sleep(left.min(NAP));
            seen.append(&mut watch.take()?);
            if (self.stop)() {
                return Err(io::Error::from(io::ErrorKind::Interrupted).into());
            }
        }
        Ok(())
    }
}

/// Of a victim that slept: the time of the operations, all of which count.
fn without_gaps(mut raw: Raw, whole: u64) -> Raw {
    let first = raw.ops.first().map_or(raw.told_ns, |op| op.begin_ns);
    let last = raw.ops.last().map_or(0, |op| op.end_ns);
    raw.begin_ns = first;
    raw.end_ns = last.max(first + whole);
    raw.gaps.clear();
    raw.turns.clear();
    raw
}
