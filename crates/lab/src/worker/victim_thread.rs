//! The victim's thread in the worker: it spins when it is ordered to, and is asleep in a channel between blocks.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::pin;
use crate::tsc::TickPair;
use crate::victim::{TouchedMemory, Victim};

/// An order to the victim's thread.
pub(super) enum VictimOrder {
    Warm(Option<TouchedMemory>),
    Spin(u64),
    Sleep(Duration),
}

/// The victim's thread; between blocks it is asleep in a channel.
pub(super) struct VictimThread {
    orders: Sender<(VictimOrder, Victim)>,
    done: Receiver<(Victim, TickPair)>,
    /// The victim has touched its memory, and looks at the counter now.
    spins: Arc<AtomicBool>,
    pub(super) tid: u32,
    /// The victim, between blocks.
    pub(super) rests: Option<Victim>,
}

impl VictimThread {
    pub(super) fn start(
        cpu: u32,
        touch: Option<TouchedMemory>,
        calibrate: u64,
    ) -> io::Result<Self> {
        let (orders, told) = channel::<(VictimOrder, Victim)>();
        let (say, done) = channel();
        let (ready, first) = channel();
        let spins = Arc::new(AtomicBool::new(false));
        let begun = Arc::clone(&spins);
        thread::Builder::new()
            .name("quell-victim".to_owned())
            .spawn(move || {
                let pinned = pin::pin_self(&[cpu]).and_then(|()| {
                    // First touches would be faults that nobody caused.
                    if let Some(touch) = touch {
                        touch.touch_all();
                    }
                    let tid = rustix::thread::gettid().as_raw_nonzero().get();
                    let victim = Victim::calibrated(calibrate, touch)?;
                    Ok((u32::try_from(tid).unwrap_or(0), victim))
                });
                if ready.send(pinned).is_err() {
                    return;
                }
                while let Ok((spell, mut victim)) = told.recv() {
                    let spun = match spell {
                        VictimOrder::Warm(memory) => {
                            if let Some(memory) = memory {
                                memory.touch_all();
                            }
                            (0, 0)
                        }
                        VictimOrder::Spin(ticks) => victim.spin(ticks, touch, &begun),
                        VictimOrder::Sleep(time) => {
                            begun.store(true, Ordering::Release);
                            thread::sleep(time);
                            (0, 0)
                        }
                    };
                    if say.send((victim, spun)).is_err() {
                        return;
                    }
                }
            })?;
        let (tid, victim) = first.recv().map_err(io::Error::other)??;
        Ok(Self {
            orders,
            done,
            spins,
            tid,
            rests: Some(victim),
        })
    }

    pub(super) fn send_order(&mut self, spell: VictimOrder) -> io::Result<()> {
        let victim = self.rests.take();
        let victim = victim.ok_or_else(|| io::Error::other("the victim has no rest"))?;
        self.spins.store(false, Ordering::Release);
        self.orders
            .send((spell, victim))
            .map_err(|_| io::Error::other("the victim has gone"))
    }

    /// Waits until the victim can be stalled, or for so long: it first touches all of its memory, which may take longer than the
    /// culprit waits.
    pub(super) fn wait_until_it_spins(&self, longest: Duration) {
        let until = Instant::now() + longest;
        while !self.spins.load(Ordering::Acquire) && Instant::now() < until {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits for the end of the order, and returns the first and the last reading of a spin, both 0 of any other order.
    pub(super) fn await_end(&mut self) -> io::Result<TickPair> {
        let (victim, spun) = self.done.recv().map_err(io::Error::other)?;
        self.rests = Some(victim);
        Ok(spun)
    }
}
