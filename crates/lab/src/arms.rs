//! One block of one arm: it decides which worker begins, reads the probe meanwhile, and says whether the block counts.

use std::io;
use std::time::{Duration, Instant};

use quell_event::Interruption;

use crate::arm::Arm;
use crate::around::Watch;
use crate::attribute::{Blame, attribute};
use crate::block::Raw;
use crate::daemons::daemons;
use crate::mechanism::{Mechanism, Timing};
use crate::process::{Stop, Worker};
use crate::protocol::Block;
use crate::round::{Invalid, Measured, Options};
use crate::tsc::nanoseconds;

/// The victim must have run for one part in so many of a block.
const LEAST_RUN: u64 = 5;

/// The worker processes of an experiment.
pub(crate) struct Workers {
    /// Victim and culprit in one process.
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
        // Interruptions between two blocks belong to neither.
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
            // The operations are those of the sham, the gaps are those of the victim.
            raw.ops = self.sham.end()?.ops;
            self.sham.pid()
        } else {
            self.both.pid()
        };
        seen.append(&mut watch.take()?);
        let lost = watch.lost()? > lost;
        // They are listed after the block, for the kernel's workers come and go.
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

    /// Reads the probe every 0.1 s, so that its ring does not fill.
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

/// The block of a victim that slept: it spans the operations, so that all of them count.
fn without_gaps(mut raw: Raw, whole: u64) -> Raw {
    let first = raw.ops.first().map_or(raw.told_ns, |op| op.begin_ns);
    let last = raw.ops.last().map_or(0, |op| op.end_ns);
    raw.begin_ns = first;
    raw.end_ns = last.max(first + whole);
    raw.gaps.clear();
    raw.turns.clear();
    raw
}
