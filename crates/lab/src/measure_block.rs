//! One block of one arm: it decides which worker begins, reads the probe meanwhile, and says whether the block counts.

use std::io;
use std::time::{Duration, Instant};

use quell_event::Interruption;

use crate::arm::Arm;
use crate::attribute::{Blame, classify_gaps};
use crate::block::RawBlock;
use crate::host_api::VictimWatch;
use crate::kernel_threads::kernel_thread_pids;
use crate::mechanism::{OperationTiming, StallMechanism};
use crate::protocol::BlockOrder;
use crate::round::{ExperimentOptions, InvalidReason, MeasuredBlock};
use crate::tsc::duration_ns;
use crate::worker_handle::{StopRequested, WorkerHandle};

/// The victim must have run for one part in so many of a block.
const MIN_RUN_DIVISOR: u64 = 5;

/// The worker processes of an experiment.
pub(crate) struct ExperimentWorkers {
    /// Victim and culprit in one process.
    pub(crate) both: WorkerHandle,
    /// A culprit in a process of its own.
    pub(crate) sham: WorkerHandle,
    /// Whether somebody wants it to end.
    pub(crate) stop: StopRequested,
}

impl ExperimentWorkers {
    /// Runs a block of an arm.
    pub(crate) fn measure_block(
        &mut self,
        arm: Arm,
        options: &ExperimentOptions,
        mechanism: &StallMechanism,
        watch: &mut dyn VictimWatch,
    ) -> anyhow::Result<MeasuredBlock> {
        let once_after_ns = match mechanism.timing {
            OperationTiming::Repeated | OperationTiming::Slow { .. } => None,
            OperationTiming::Once { after_ms, .. } => Some(after_ms * 1_000_000),
        };
        if once_after_ns.is_some() {
            match arm {
                Arm::Idle => {}
                Arm::Sham => self.sham.prepare_block()?,
                Arm::Real | Arm::Untraced => self.both.prepare_block()?,
            }
        }
        let block = |operate| BlockOrder {
            ns: duration_ns(options.block),
            operate,
            pace_ns: duration_ns(options.pace),
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
        watch.take_interruptions()?;
        let lost = watch.lost_records()?;
        let sham = arm == Arm::Sham;
        if sham {
            self.sham.begin_block(block(true))?;
        }
        self.both
            .begin_block(block(arm == Arm::Real || arm == Arm::Untraced))?;
        let mut seen = Vec::new();
        self.wait_for_block(options.block, watch, &mut seen)?;
        let mut raw = self.both.end_block()?;
        let culprit = if sham {
            // The operations are those of the sham, the gaps are those of the victim.
            raw.ops = self.sham.end_block()?.ops;
            self.sham.pid()
        } else {
            self.both.pid()
        };
        seen.append(&mut watch.take_interruptions()?);
        let lost = watch.lost_records()? > lost;
        // They are listed after the block, for the kernel's workers come and go.
        let daemons = kernel_thread_pids(mechanism.daemons);
        let whole = duration_ns(options.block);
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
        let block = classify_gaps(raw, seen, &blame);
        let invalid = if lost {
            Some(InvalidReason::Lost)
        } else if !asleep && block.ran_ns() < whole / MIN_RUN_DIVISOR {
            Some(InvalidReason::Away)
        } else if arm != Arm::Idle && !block.is_operated() {
            Some(InvalidReason::NoOperation)
        } else {
            None
        };
        Ok(MeasuredBlock {
            arm,
            block,
            invalid,
        })
    }

    /// Reads the probe every 0.1 s, so that its ring does not fill.
    fn wait_for_block(
        &mut self,
        time: Duration,
        watch: &mut dyn VictimWatch,
        seen: &mut Vec<Interruption>,
    ) -> anyhow::Result<()> {
        const PROBE_READ_INTERVAL: Duration = Duration::from_millis(100);
        let until = Instant::now() + time;
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            std::thread::sleep(left.min(PROBE_READ_INTERVAL));
            seen.append(&mut watch.take_interruptions()?);
            if (self.stop)() {
                return Err(io::Error::from(io::ErrorKind::Interrupted).into());
            }
        }
        Ok(())
    }
}

/// The block of a victim that slept: it spans the operations, so that all of them count.
fn without_gaps(mut raw: RawBlock, whole: u64) -> RawBlock {
    let first = raw.ops.first().map_or(raw.told_ns, |op| op.begin_ns);
    let last = raw.ops.last().map_or(0, |op| op.end_ns);
    raw.begin_ns = first;
    raw.end_ns = last.max(first + whole);
    raw.gaps.clear();
    raw.turns.clear();
    raw
}
