//! The worker: a process with a victim and a culprit in one address space, or with a culprit alone. It reads orders on stdin,
//! answers on stdout, and ends when stdin does or its parent dies.
//!
//! It is a process of its own, because the lab reads the probe, allocates and prints meanwhile, all of which causes shootdowns,
//! and because nothing of the operations is left behind when it goes. Every loop here ends by the time stamp counter.

mod victim_thread;

use std::io::{self, BufRead, Write};
use std::thread;
use std::time::Duration;

use crate::arm::VictimActivity;
use crate::mechanism::{self, Culprit};
use crate::pin;
use crate::protocol::{BlockOrder, BlockResult, WorkerOrder, WorkerReady, WorkerRole, WorkerSetup};
use crate::protocol::{receive_line, send_stamps};
use crate::tsc::{self, TickPair, TscLine, TscMoment};
use crate::victim::{TouchedMemory, Victim};
use crate::worker_signals::{send_answer, set_alarm, set_worker_signals};
use victim_thread::{VictimOrder, VictimThread};

/// Room for the operations of a block; the culprit rests when it is full.
const MAX_OPS: usize = 1 << 18;

/// The time in which the rate of the counter is measured.
const LINE_TIME: Duration = Duration::from_millis(10);

/// The time in which the victim looks for its shortest turn.
const CALIBRATION_TIME: Duration = Duration::from_millis(20);

/// The lab's own patience ends so much earlier.
const PATIENCE_MARGIN: Duration = Duration::from_secs(10);

/// Works until there are no more orders.
///
/// # Errors
///
/// If the lab has gone, or an order can't be read.
pub fn serve_orders(orders: &mut impl BufRead, answers: &mut impl Write) -> io::Result<()> {
    set_worker_signals()?;
    // It was started as /proc/self/exe, of which the kernel would make "exe".
    rustix::thread::set_name(c"quell-lab")?;
    let mut crew: Option<WorkerCrew> = None;
    let mut patience = Duration::ZERO;
    while let Some(order) = receive_line(orders)? {
        if let WorkerOrder::Setup(setup) = &order {
            patience = setup.operation_patience();
        }
        let block = match &order {
            WorkerOrder::Block(block) => Duration::from_nanos(block.ns),
            WorkerOrder::Setup(_) | WorkerOrder::Prepare => Duration::ZERO,
        };
        // The lab gives up first, and says at which step. Should the lab be stopped then, this ends the worker, whatever call it
        // is in.
        set_alarm(
            patience
                .saturating_add(block)
                .saturating_add(PATIENCE_MARGIN),
        );
        match order {
            WorkerOrder::Setup(setup) => {
                let made = WorkerCrew::prepare_crew(&setup).map(|(ready, made)| {
                    crew = Some(made);
                    ready
                });
                send_answer(answers, made)?;
            }
            WorkerOrder::Prepare => {
                send_answer(
                    answers,
                    ready_crew(&mut crew).and_then(WorkerCrew::prepare_block),
                )?;
            }
            WorkerOrder::Block(block) => {
                let done = ready_crew(&mut crew).and_then(|crew| crew.run_block(block));
                let is_done = done.is_ok();
                send_answer(answers, done)?;
                if let Some(crew) = crew.as_ref().filter(|_| is_done) {
                    crew.send_stamps(answers)?;
                }
            }
        }
    }
    Ok(())
}

fn ready_crew(crew: &mut Option<WorkerCrew>) -> io::Result<&mut WorkerCrew> {
    crew.as_mut()
        .ok_or_else(|| io::Error::other("an order before the setup"))
}

struct WorkerCrew {
    culprit: Box<dyn Culprit>,
    victim: Option<VictimThread>,
    mode: VictimActivity,
    ops: Vec<TickPair>,
    /// The next operation is prepared already, in a block that ended before it.
    is_prepared: bool,
    line: TscLine,
}

impl WorkerCrew {
    fn prepare_crew(setup: &WorkerSetup) -> io::Result<(WorkerReady, Self)> {
        let mechanism = mechanism::mechanism_by_name(&setup.mechanism)
            .ok_or_else(|| io::Error::other(format!("no mechanism '{}'", setup.mechanism)))?;
        // The culprit's own CPU comes first, and never the victim's, which the sham must leave alone too.
        let others = pin::allowed_cpus()?.into_iter();
        let others = others.filter(|cpu| ![setup.culprit_cpu, setup.victim_cpu].contains(cpu));
        let cpus: Vec<u32> = std::iter::once(setup.culprit_cpu).chain(others).collect();
        // The culprit prepares its memory on the CPU where it will run.
        pin::pin_self(&[setup.culprit_cpu])?;
        let mut culprit = (mechanism.prepare)(&setup.params)?;
        let note = culprit.spread_threads(&cpus)?;
        let line = TscLine::measure(LINE_TIME);
        let calibrate = line.ticks_of_ns(tsc::duration_ns(CALIBRATION_TIME));
        let victim = match setup.role {
            WorkerRole::Culprit => None,
            WorkerRole::Both => Some(VictimThread::start(
                setup.victim_cpu,
                culprit.touched_memory(),
                calibrate,
            )?),
        };
        let mut ops = vec![(0, 0); MAX_OPS];
        ops.clear();
        let rests = victim.as_ref().and_then(|v| v.rests.as_ref());
        let limit_ticks = rests.map_or(0, Victim::gap_limit_ticks);
        let ready = WorkerReady {
            victim_tid: victim.as_ref().map_or(0, |v| v.tid),
            limit_ns: line.ns_of_ticks(limit_ticks),
            note,
        };
        let crew = Self {
            culprit,
            victim,
            mode: setup.mode,
            ops,
            is_prepared: false,
            line,
        };
        Ok((ready, crew))
    }

    /// Does the long preparations that are no part of a block.
    fn prepare_block(&mut self) -> io::Result<()> {
        self.culprit.begin_block()?;
        self.is_prepared = false;
        if let Some(victim) = &mut self.victim {
            victim.send_order(VictimOrder::Warm(self.culprit.warm_memory()))?;
            victim.await_end()?;
        }
        Ok(())
    }

    fn run_block(&mut self, block: BlockOrder) -> io::Result<BlockResult> {
        let ticks = self.line.ticks_of_ns(block.ns).max(1);
        let from = TscMoment::read_tsc();
        if let Some(victim) = &mut self.victim {
            let spell = match self.mode {
                VictimActivity::Spin => VictimOrder::Spin(ticks),
                VictimActivity::Sleep => VictimOrder::Sleep(Duration::from_nanos(block.ns)),
            };
            victim.send_order(spell)?;
        }
        let worked = if block.operate {
            let pace = self.line.ticks_of_ns(block.pace_ns);
            match block.once_after_ns {
                None => {
                    let alone = self.victim.is_none();
                    let touch = self.culprit.touched_memory().filter(|_| alone);
                    let times = BlockTicks { ticks, pace };
                    repeat_operation(
                        &mut *self.culprit,
                        &mut self.ops,
                        &mut self.is_prepared,
                        touch,
                        times,
                    )
                }
                Some(after) => {
                    if let Some(victim) = &self.victim {
                        victim.wait_until_it_spins(Duration::from_nanos(block.ns));
                    }
                    thread::sleep(Duration::from_nanos(after.min(block.ns)));
                    operate_once(&mut *self.culprit, &mut self.ops)
                }
            }
        } else {
            self.ops.clear();
            thread::sleep(Duration::from_nanos(block.ns));
            Ok(())
        };
        let spun = match &mut self.victim {
            Some(victim) => victim.await_end()?,
            None => (0, 0),
        };
        worked?;
        let to = TscMoment::read_tsc();
        let rests = self.victim.as_ref().and_then(|v| v.rests.as_ref());
        let sparse = |turns: &[u32]| {
            (0_u32..)
                .zip(turns)
                .filter(|(_, n)| **n > 0)
                .map(|(t, n)| (t, *n))
                .collect()
        };
        Ok(BlockResult {
            from,
            to,
            spun,
            turns: rests.map(|v| sparse(&v.turns)).unwrap_or_default(),
            gaps: rests.map_or(0, |v| v.gaps.len()),
            ops: self.ops.len(),
        })
    }

    /// Sends the gaps of the block, each as its beginning and length, and its operations, each as its beginning and end.
    fn send_stamps(&self, answers: &mut impl Write) -> io::Result<()> {
        let rests = self.victim.as_ref().and_then(|v| v.rests.as_ref());
        let gaps = rests.map(|v| v.gaps.as_slice()).unwrap_or_default();
        send_stamps(answers, gaps.iter().copied())?;
        send_stamps(answers, self.ops.iter().copied())
    }
}

/// The times of a block, in ticks: its length, and the shortest time from one operation to the next.
#[derive(Clone, Copy)]
struct BlockTicks {
    ticks: u64,
    pace: u64,
}

/// Repeats the operation until the time is over. A prepared operation that did not fit in any more is kept for the next block:
/// one whose preparation takes longer than a block would never be done otherwise. Without a victim the culprit itself touches the
/// victim's memory, between operations: otherwise all operations but the first would find nothing to write back, to page out or
/// to copy, and a control that does less than the culprit is no control.
fn repeat_operation(
    culprit: &mut dyn Culprit,
    ops: &mut Vec<TickPair>,
    is_prepared: &mut bool,
    touch: Option<TouchedMemory>,
    times: BlockTicks,
) -> io::Result<()> {
    ops.clear();
    let deadline = tsc::read_tsc().saturating_add(times.ticks);
    let mut next = 0;
    while tsc::read_tsc() < deadline {
        if !*is_prepared {
            culprit.prepare_operation()?;
            *is_prepared = true;
        }
        if let Some(touch) = touch {
            touch.touch_all();
        }
        // The wait ends by the counter, and never beyond the deadline.
        while tsc::read_tsc() < next.min(deadline) {
            std::hint::spin_loop();
        }
        let begin = tsc::read_tsc();
        if begin >= deadline {
            break;
        }
        *is_prepared = false;
        culprit.run_operation()?;
        let end = tsc::read_tsc();
        culprit.clean_up()?;
        if ops.len() == MAX_OPS {
            // The deadline is looked at before the next operation.
            thread::sleep(Duration::from_millis(1));
            continue;
        }
        ops.push((begin, end));
        next = begin + times.pace;
    }
    Ok(())
}

/// Does the one operation of a block; it was prepared before the block.
fn operate_once(culprit: &mut dyn Culprit, ops: &mut Vec<TickPair>) -> io::Result<()> {
    ops.clear();
    let begin = tsc::read_tsc();
    culprit.run_operation()?;
    ops.push((begin, tsc::read_tsc()));
    culprit.clean_up()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{LabMapping, PAGE_BYTES};

    /// Says how often it found its memory as it had left it.
    struct Leaves {
        mapping: LabMapping,
        unchanged: usize,
    }

    impl Culprit for Leaves {
        fn run_operation(&mut self) -> io::Result<()> {
            // SAFETY: within the mapping of two pages.
            let second = unsafe { self.mapping.start().add(PAGE_BYTES) };
            // SAFETY: the same.
            self.unchanged += usize::from(unsafe { second.read_volatile() } == 0xff);
            // SAFETY: the same.
            unsafe { second.write_volatile(0xff) };
            Ok(())
        }
    }

    /// Check that a culprit without a victim finds its memory written before every operation, and one with a victim is left alone.
    #[test]
    fn memory_is_touched_in_place_of_a_victim() {
        let ticks = TscLine::measure(LINE_TIME).ticks_of_ns(5_000_000);
        let mapping = LabMapping::anonymous(2 * PAGE_BYTES).unwrap();
        let touch = TouchedMemory::new(&mapping, true);
        mapping.touch_pages();
        let mut culprit = Leaves {
            mapping,
            unchanged: 0,
        };
        let mut ops = Vec::with_capacity(MAX_OPS);
        culprit.run_operation().unwrap();
        culprit.unchanged = 0;
        let mut repeat = |touch: Option<TouchedMemory>| {
            ops.clear();
            // all of a short time may be another thread's
            while ops.is_empty() {
                culprit.unchanged = 0;
                let times = BlockTicks { ticks, pace: 1000 };
                repeat_operation(&mut culprit, &mut ops, &mut false, touch, times).unwrap();
            }
            (culprit.unchanged, ops.len())
        };
        let (unchanged, all) = repeat(None);
        assert_eq!(unchanged, all);
        assert_eq!(repeat(Some(touch)).0, 0);
    }

    /// Takes longer to prepare than a block is.
    struct Slow {
        prepared: usize,
        done: usize,
    }

    impl Culprit for Slow {
        fn prepare_operation(&mut self) -> io::Result<()> {
            thread::sleep(Duration::from_millis(3));
            self.prepared += 1;
            Ok(())
        }

        fn run_operation(&mut self) -> io::Result<()> {
            self.done += 1;
            Ok(())
        }
    }

    /// Check that what was prepared for an operation that no longer fitted in is there for the next block, and used once.
    #[test]
    fn slow_preparation_is_kept() {
        let ticks = TscLine::measure(LINE_TIME).ticks_of_ns(1_000_000);
        let mut culprit = Slow {
            prepared: 0,
            done: 0,
        };
        let mut ops = Vec::with_capacity(MAX_OPS);
        let mut is_prepared = false;
        for _ in 0..6 {
            let times = BlockTicks { ticks, pace: 0 };
            repeat_operation(&mut culprit, &mut ops, &mut is_prepared, None, times).unwrap();
        }
        // one in each block but the first, unless another thread had all of it
        assert!(culprit.done >= 2, "{} operations", culprit.done);
        assert_eq!(culprit.prepared, culprit.done + usize::from(is_prepared));
    }
}
