//! The worker: a process with a victim and a culprit in one address space, or with a culprit alone. It reads orders on stdin,
//! answers on stdout, and ends when stdin does or its parent dies.
//!
//! It is a process of its own, because the lab reads the probe, allocates and prints meanwhile, all of which causes shootdowns,
//! and because nothing of the operations is left behind when it goes. Every loop here ends by the time stamp counter.

mod victim_thread;

use std::io::{self, BufRead, Write};
use std::thread;
use std::time::Duration;

use crate::arm::Mode;
use crate::mechanism::{self, Culprit};
use crate::pin;
use crate::protocol::{Answer, Block, Done, Order, Ready, Role, Setup, Stamp};
use crate::protocol::{receive, send, send_stamps};
use crate::signals;
use crate::tsc::{self, Moment};
use crate::victim::{Spun, Touch, Victim};
use victim_thread::{Spell, VictimThread};

/// Room for the operations of a block; the culprit rests when it is full.
const MOST_OPS: usize = 1 << 18;

/// The time in which the victim looks for its shortest turn.
const CALIBRATE: Duration = Duration::from_millis(20);

/// The lab's own patience ends so much earlier.
const LATER: Duration = Duration::from_secs(10);

/// Ends this process after that time, by a signal that nobody handles (alarm(2)); never, if the time is zero.
fn alarm(time: Duration) {
    // SAFETY: a number only.
    unsafe { libc::alarm(u32::try_from(time.as_secs()).unwrap_or(u32::MAX)) };
}

/// Works until there are no more orders.
///
/// # Errors
///
/// If the lab has gone, or an order can't be read.
pub fn work(orders: &mut impl BufRead, answers: &mut impl Write) -> io::Result<()> {
    signals::of_a_worker()?;
    // It was started as /proc/self/exe, of which the kernel would make "exe".
    rustix::thread::set_name(c"quell-lab")?;
    let mut crew: Option<Crew> = None;
    let mut patience = Duration::ZERO;
    while let Some(order) = receive(orders)? {
        if let Order::Setup(setup) = &order {
            patience = setup.patience();
        }
        let block = match &order {
            Order::Block(block) => Duration::from_nanos(block.ns),
            Order::Setup(_) | Order::Prepare => Duration::ZERO,
        };
        // The lab gives up first, and says at which step. Should the lab be stopped then, this ends the worker, whatever call it
        // is in.
        alarm(patience.saturating_add(block).saturating_add(LATER));
        let done = match order {
            Order::Setup(setup) => Crew::ready(&setup).map(|(ready, made)| {
                crew = Some(made);
                Answer::Ready(ready)
            }),
            Order::Prepare => match &mut crew {
                Some(crew) => crew.prepare().map(|()| Answer::Prepared),
                None => Err(io::Error::other("nothing to prepare")),
            },
            Order::Block(block) => match &mut crew {
                Some(crew) => match crew.block(block) {
                    Ok(done) => {
                        alarm(Duration::ZERO);
                        crew.tell(answers, &done)?;
                        continue;
                    }
                    Err(err) => Err(err),
                },
                None => Err(io::Error::other("a block before the setup")),
            },
        };
        alarm(Duration::ZERO);
        let answer = done.unwrap_or_else(|err| Answer::Failed(err.to_string()));
        send(answers, &answer)?;
    }
    Ok(())
}

struct Crew {
    culprit: Box<dyn Culprit>,
    victim: Option<VictimThread>,
    mode: Mode,
    ops: Vec<Stamp>,
    /// The next operation is prepared already, in a block that ended before it.
    is_prepared: bool,
    ticks_per_ms: u64,
}

impl Crew {
    fn ready(setup: &Setup) -> io::Result<(Ready, Self)> {
        let mechanism = mechanism::find(&setup.mechanism)
            .ok_or_else(|| io::Error::other(format!("no mechanism '{}'", setup.mechanism)))?;
        // The culprit's own CPU comes first, and never the victim's, which the sham must leave alone too.
        let others = pin::allowed()?.into_iter();
        let others = others.filter(|cpu| ![setup.culprit_cpu, setup.victim_cpu].contains(cpu));
        let cpus: Vec<u32> = std::iter::once(setup.culprit_cpu).chain(others).collect();
        // The culprit prepares its memory on the CPU where it will run.
        pin::to(&[setup.culprit_cpu])?;
        let mut culprit = (mechanism.prepare)(&setup.params)?;
        let note = culprit.spread(&cpus)?;
        let ticks_per_ms = ticks_per_ms();
        let calibrate = ticks_per_ms * u64::try_from(CALIBRATE.as_millis()).unwrap_or(1);
        let victim = match setup.role {
            Role::Culprit => None,
            Role::Both => Some(VictimThread::start(
                setup.victim_cpu,
                culprit.touch(),
                calibrate,
            )?),
        };
        let mut ops = vec![(0, 0); MOST_OPS];
        ops.clear();
        let rests = victim.as_ref().and_then(|v| v.rests.as_ref());
        let limit_ticks = rests.map_or(0, Victim::limit);
        let ready = Ready {
            victim_tid: victim.as_ref().map_or(0, |v| v.tid),
            limit_ns: limit_ticks * 1_000_000 / ticks_per_ms,
            note,
        };
        let crew = Self {
            culprit,
            victim,
            mode: setup.mode,
            ops,
            is_prepared: false,
            ticks_per_ms,
        };
        Ok((ready, crew))
    }

    /// Does the long preparations that are no part of a block.
    fn prepare(&mut self) -> io::Result<()> {
        self.culprit.begin_block()?;
        self.is_prepared = false;
        if let Some(victim) = &mut self.victim {
            victim.begin(Spell::Warm(self.culprit.warm()))?;
            victim.end()?;
        }
        Ok(())
    }

    fn block(&mut self, block: Block) -> io::Result<Done> {
        let ticks = ticks(block.ns, self.ticks_per_ms);
        let from = Moment::now();
        if let Some(victim) = &mut self.victim {
            let spell = match self.mode {
                Mode::Spin => Spell::Spin(ticks),
                Mode::Sleep => Spell::Sleep(Duration::from_nanos(block.ns)),
            };
            victim.begin(spell)?;
        }
        let worked = if block.operate {
            let pace = ticks_of(block.pace_ns, self.ticks_per_ms);
            match block.once_after_ns {
                None => {
                    let alone = self.victim.is_none();
                    let touch = self.culprit.touch().filter(|_| alone);
                    let times = Times { ticks, pace };
                    operate(
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
                    once(&mut *self.culprit, &mut self.ops)
                }
            }
        } else {
            self.ops.clear();
            thread::sleep(Duration::from_nanos(block.ns));
            Ok(())
        };
        let spun = match &mut self.victim {
            Some(victim) => victim.end()?,
            None => Spun { begin: 0, end: 0 },
        };
        worked?;
        let to = Moment::now();
        let rests = self.victim.as_ref().and_then(|v| v.rests.as_ref());
        let sparse = |turns: &[u32]| {
            (0_u32..)
                .zip(turns)
                .filter(|(_, n)| **n > 0)
                .map(|(t, n)| (t, *n))
                .collect()
        };
        Ok(Done {
            from,
            to,
            spun: (spun.begin, spun.end),
            turns: rests.map(|v| sparse(&v.turns)).unwrap_or_default(),
            gaps: rests.map_or(0, |v| v.gaps.len()),
            ops: self.ops.len(),
        })
    }

    fn tell(&self, answers: &mut impl Write, done: &Done) -> io::Result<()> {
        let rests = self.victim.as_ref().and_then(|v| v.rests.as_ref());
        let gaps = rests.map(|v| v.gaps.as_slice()).unwrap_or_default();
        send(answers, &Answer::Done(done.clone()))?;
        send_stamps(answers, gaps.iter().map(|g| (g.begin, g.ticks)))?;
        send_stamps(answers, self.ops.iter().copied())
    }
}

/// The times of a block, in ticks: its length, and the shortest time from one operation to the next.
#[derive(Clone, Copy)]
struct Times {
    ticks: u64,
    pace: u64,
}

/// Repeats the operation until the time is over. A prepared operation that did not fit in any more is kept for the next block:
/// one whose preparation takes longer than a block would never be done otherwise. Without a victim the culprit itself touches the
/// victim's memory, between operations: otherwise all operations but the first would find nothing to write back, to page out or
/// to copy, and a control that does less than the culprit is no control.
fn operate(
    culprit: &mut dyn Culprit,
    ops: &mut Vec<Stamp>,
    is_prepared: &mut bool,
    touch: Option<Touch>,
    times: Times,
) -> io::Result<()> {
    ops.clear();
    let deadline = tsc::now().saturating_add(times.ticks);
    let mut next = 0;
    while tsc::now() < deadline {
        if !*is_prepared {
            culprit.before()?;
            *is_prepared = true;
        }
        if let Some(touch) = touch {
            touch.once();
        }
        // The wait ends by the counter, and never beyond the deadline.
        while tsc::now() < next.min(deadline) {
            std::hint::spin_loop();
        }
        let begin = tsc::now();
        if begin >= deadline {
            break;
        }
        *is_prepared = false;
        culprit.operate()?;
        let end = tsc::now();
        culprit.after()?;
        if ops.len() == MOST_OPS {
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
fn once(culprit: &mut dyn Culprit, ops: &mut Vec<Stamp>) -> io::Result<()> {
    ops.clear();
    let begin = tsc::now();
    culprit.operate()?;
    ops.push((begin, tsc::now()));
    culprit.after()
}

fn ticks_per_ms() -> u64 {
    let from = Moment::now();
    thread::sleep(Duration::from_millis(10));
    let to = Moment::now();
    let ns = to.ns.saturating_sub(from.ns).max(1);
    let per_ms = u128::from(to.tsc.saturating_sub(from.tsc)) * 1_000_000 / u128::from(ns);
    u64::try_from(per_ms).unwrap_or(1).max(1)
}

fn ticks(ns: u64, per_ms: u64) -> u64 {
    ticks_of(ns, per_ms).max(1)
}

fn ticks_of(ns: u64, per_ms: u64) -> u64 {
    u64::try_from(u128::from(ns) * u128::from(per_ms) / 1_000_000).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Mapping, PAGE};

    /// Says how often it found its memory as it had left it.
    struct Leaves {
        mapping: Mapping,
        unchanged: usize,
    }

    impl Culprit for Leaves {
        fn operate(&mut self) -> io::Result<()> {
            // SAFETY: within the mapping of two pages.
            let second = unsafe { self.mapping.start().add(PAGE) };
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
        let ticks = ticks_per_ms() * 5;
        let mapping = Mapping::anonymous(2 * PAGE).unwrap();
        let touch = Touch::new(mapping.start(), mapping.bytes(), true);
        mapping.touch();
        let mut culprit = Leaves {
            mapping,
            unchanged: 0,
        };
        let mut ops = Vec::with_capacity(MOST_OPS);
        culprit.operate().unwrap();
        culprit.unchanged = 0;
        let mut repeat = |touch: Option<Touch>| {
            ops.clear();
            // all of a short time may be another thread's
            while ops.is_empty() {
                culprit.unchanged = 0;
                let times = Times { ticks, pace: 1000 };
                operate(&mut culprit, &mut ops, &mut false, touch, times).unwrap();
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
        fn before(&mut self) -> io::Result<()> {
            thread::sleep(Duration::from_millis(3));
            self.prepared += 1;
            Ok(())
        }

        fn operate(&mut self) -> io::Result<()> {
            self.done += 1;
            Ok(())
        }
    }

    /// Check that what was prepared for an operation that no longer fitted in is there for the next block, and used once.
    #[test]
    fn slow_preparation_is_kept() {
        let ticks = ticks_per_ms();
        let mut culprit = Slow {
            prepared: 0,
            done: 0,
        };
        let mut ops = Vec::with_capacity(MOST_OPS);
        let mut is_prepared = false;
        for _ in 0..6 {
            let times = Times { ticks, pace: 0 };
            operate(&mut culprit, &mut ops, &mut is_prepared, None, times).unwrap();
        }
        // one in each block but the first, unless another thread had all of it
        assert!(culprit.done >= 2, "{} operations", culprit.done);
        assert_eq!(culprit.prepared, culprit.done + usize::from(is_prepared));
    }
}
