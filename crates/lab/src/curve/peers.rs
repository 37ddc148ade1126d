//! Other threads of the same address space, each on a CPU of its own: they spin while a batch goes on, or sleep.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use super::batch::TimeBatch;
use super::forked_child::ForkedChild;
use super::turn_wire::TurnWire;
use crate::pin;
use crate::tsc;

/// The behaviour of peers while a batch goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PeerActivity {
    /// They read the time stamp counter and nothing else.
    Spin,
    /// They have just run, and sleep: their CPUs idle, or run others, with this address space still noted for them
    /// (arch/x86/mm/tlb.c: `cpu_tlbstate_shared.is_lazy`).
    Sleep,
    /// They have just run, and sleep, and another process has run on their CPUs since: those have its address space
    /// loaded now, or went idle with it.
    SleepAway,
}

/// The threads. They end with the process, or when this is dropped; no spin goes beyond its batch.
#[derive(Debug)]
pub(super) struct PeerThreads {
    threads: Vec<PeerThread>,
    others: Vec<OtherProcess>,
    does: PeerActivity,
}

#[derive(Debug)]
struct PeerThread {
    orders: Sender<(u64, Arc<AtomicBool>)>,
    there: Receiver<io::Result<()>>,
}

impl PeerThreads {
    /// Starts one thread on each of these CPUs.
    pub(super) fn start_on(cpus: &[u32], does: PeerActivity) -> io::Result<Self> {
        // The other processes come before there are threads, for each is a fork that goes on as this process.
        let others = match does {
            PeerActivity::SleepAway => cpus.iter().map(|cpu| OtherProcess::start(*cpu)).collect(),
            PeerActivity::Spin | PeerActivity::Sleep => Ok(Vec::new()),
        };
        let others = others?;
        let threads = cpus.iter().map(|cpu| PeerThread::start(*cpu, does));
        Ok(Self {
            threads: threads.collect::<io::Result<_>>()?,
            others,
            does,
        })
    }

    /// Has them spin or sleep until the returned value is dropped, or until the batch must have ended.
    pub(super) fn begin_activity(&self, batch: &TimeBatch) -> io::Result<BusyPeers<'_>> {
        let over = Arc::new(AtomicBool::new(false));
        for peer in &self.threads {
            let order = (batch.deadline_tsc(), Arc::clone(&over));
            peer.orders.send(order).map_err(io::Error::other)?;
        }
        for peer in &self.threads {
            peer.there.recv().map_err(io::Error::other)??;
        }
        if !self.others.is_empty() {
            // The threads are off their CPUs only some time after they have said so.
            thread::sleep(SLEEP_SETTLE_TIME);
        }
        for other in &self.others {
            other.run_once()?;
        }
        Ok(BusyPeers { peers: self, over })
    }
}

/// The time that the threads get to fall asleep.
const SLEEP_SETTLE_TIME: Duration = Duration::from_micros(200);

/// A process of an address space of its own that runs on a CPU when it is asked to, and then sleeps.
#[derive(Debug)]
struct OtherProcess {
    wire: TurnWire,
    _child: ForkedChild,
}

impl OtherProcess {
    fn start(cpu: u32) -> io::Result<Self> {
        let (wire, there) = TurnWire::pipes()?;
        let child = ForkedChild::start(|| {
            pin::pin_self(&[cpu])?;
            loop {
                there.wait_for_turn()?;
                there.pass_turn()?;
            }
        })?;
        Ok(Self {
            wire,
            _child: child,
        })
    }

    /// Has it run, and waits until it has.
    fn run_once(&self) -> io::Result<()> {
        self.wire.pass_turn()?;
        self.wire.wait_for_turn()
    }
}

/// Peers that spin or sleep until this is dropped.
#[derive(Debug)]
pub(super) struct BusyPeers<'a> {
    peers: &'a PeerThreads,
    over: Arc<AtomicBool>,
}

impl Drop for BusyPeers<'_> {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if self.peers.does == PeerActivity::Spin {
            for peer in &self.peers.threads {
                // A thread that has gone does not spin.
                let _ = peer.there.recv();
            }
        }
    }
}

impl PeerThread {
    fn start(cpu: u32, does: PeerActivity) -> io::Result<Self> {
        let (orders, told) = channel::<(u64, Arc<AtomicBool>)>();
        let (say, there) = channel();
        thread::Builder::new()
            .name("quell-peer".to_owned())
            .spawn(move || {
                if say.send(pin::pin_self(&[cpu])).is_err() {
                    return;
                }
                while let Ok((until, over)) = told.recv() {
                    if say.send(Ok(())).is_err() {
                        return;
                    }
                    if does != PeerActivity::Spin {
                        continue;
                    }
                    // There is no pause instruction: a hypervisor may take it for a wait and take the CPU away (PAUSE filter).
                    while !over.load(Ordering::Relaxed) && tsc::read_tsc() < until {}
                    if say.send(Ok(())).is_err() {
                        return;
                    }
                }
            })?;
        there.recv().map_err(io::Error::other)??;
        Ok(Self { orders, there })
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    /// Check that peers end with their batch and can be told again, spinning or asleep, and that nobody waits for one
    /// whose batch is over by itself.
    #[test]
    fn peers_end_with_their_batch() {
        if tsc::tsc_quality().is_err() {
            return;
        }
        let cpus = pin::allowed_cpus().unwrap();
        let before = Instant::now();
        let mut batch = TimeBatch::new();
        for does in [PeerActivity::Spin, PeerActivity::Sleep] {
            let peers = PeerThreads::start_on(&cpus[..1], does).unwrap();
            for _ in 0..3 {
                batch.begin_batch(1_000_000);
                let busy = peers.begin_activity(&batch).unwrap();
                thread::sleep(Duration::from_millis(1));
                drop(busy);
            }
        }
        assert!(before.elapsed() < Duration::from_secs(300));
        assert!(PeerThreads::start_on(&[99_999], PeerActivity::Spin).is_err());
    }
}
