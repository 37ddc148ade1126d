//! Other threads of the same address space, each on a CPU of its own: they spin while a batch goes on, or sleep.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use super::batch::Batch;
use crate::pin;
use crate::tsc;

/// What they do while a batch goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Does {
    /// They read the time stamp counter and nothing else.
    Spin,
    /// They have just run, and sleep: their CPUs idle, or run others, with this address space still noted for them
    /// (arch/x86/mm/tlb.c: `cpu_tlbstate_shared.is_lazy`).
    Sleep,
}

/// The threads. They end with the process, or when this is dropped; no spin goes beyond its batch.
#[derive(Debug)]
pub(super) struct Peers {
    threads: Vec<Peer>,
    does: Does,
}

#[derive(Debug)]
struct Peer {
    orders: Sender<(u64, Arc<AtomicBool>)>,
    there: Receiver<io::Result<()>>,
}

impl Peers {
    /// One on each of these CPUs.
    pub(super) fn on(cpus: &[u32], does: Does) -> io::Result<Self> {
        let threads = cpus.iter().map(|cpu| Peer::start(*cpu, does));
        Ok(Self {
            threads: threads.collect::<io::Result<_>>()?,
            does,
        })
    }

    /// They do what they do until what is returned is dropped, or until the batch must have ended.
    pub(super) fn begin(&self, batch: &Batch) -> io::Result<Busy<'_>> {
        let over = Arc::new(AtomicBool::new(false));
        for peer in &self.threads {
            let order = (batch.last(), Arc::clone(&over));
            peer.orders.send(order).map_err(io::Error::other)?;
        }
        for peer in &self.threads {
            peer.there.recv().map_err(io::Error::other)??;
        }
        Ok(Busy { peers: self, over })
    }
}

/// Peers that are at it.
#[derive(Debug)]
pub(super) struct Busy<'a> {
    peers: &'a Peers,
    over: Arc<AtomicBool>,
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if self.peers.does == Does::Spin {
            for peer in &self.peers.threads {
                // one that has gone does not spin
                let _ = peer.there.recv();
            }
        }
    }
}

impl Peer {
    fn start(cpu: u32, does: Does) -> io::Result<Self> {
        let (orders, told) = channel::<(u64, Arc<AtomicBool>)>();
        let (say, there) = channel();
        thread::Builder::new()
            .name("quell-peer".to_owned())
            .spawn(move || {
                if say.send(pin::to(&[cpu])).is_err() {
                    return;
                }
                while let Ok((until, over)) = told.recv() {
                    if say.send(Ok(())).is_err() {
                        return;
                    }
                    if does == Does::Sleep {
                        continue;
                    }
                    // No pause instruction: a hypervisor may take it for a wait and take the CPU away (PAUSE filter).
                    while !over.load(Ordering::Relaxed) && tsc::now() < until {}
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
        if !tsc::is_usable() {
            return;
        }
        let cpus = pin::allowed().unwrap();
        let before = Instant::now();
        let mut batch = Batch::new();
        for does in [Does::Spin, Does::Sleep] {
            let peers = Peers::on(&cpus[..1], does).unwrap();
            for _ in 0..3 {
                batch.begin(1_000_000);
                let busy = peers.begin(&batch).unwrap();
                thread::sleep(Duration::from_millis(1));
                drop(busy);
            }
        }
        assert!(before.elapsed() < Duration::from_secs(4));
        assert!(Peers::on(&[99_999], Does::Spin).is_err());
    }
}
