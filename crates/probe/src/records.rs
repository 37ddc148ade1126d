//! From the ring of records to whole shootdowns.
//!
//! A shootdown is one record of the culprit and one of each victim that was seen, and one of its end
//! where some victims may be out of scope: the culprit waits for those too. All of them name the
//! culprit's CPU and that CPU's count of rounds, and that CPU writes them, round after round: the
//! first record of the next round closes the last one.

use std::cell::RefCell;
use std::rc::Rc;

use quell_event::{Cause, Comm, NO_STACK, Shootdown, Victim};

use crate::causes::Causes;
use crate::error::Result;
use crate::interner::{Interner, NewStack};
use crate::layout::{
    self, EndRecord, RECORD_END, RECORD_SEND, RECORD_VICTIM, SendRecord, VictimRecord,
};
use crate::loader::Probe;
use crate::ring::Ring;

/// Records that are read in one go: a few ms of work.
const AT_ONCE: usize = 1 << 15;

/// Takes whole shootdowns.
pub type Sink = Box<dyn FnMut(&Shootdown)>;

/// Reads the records of a [`Probe`] that keeps [`crate::Keep::Records`].
pub struct Records {
    ring: Ring,
    joiner: Rc<RefCell<Joiner>>,
}

impl Records {
    /// Starts to read. Every whole shootdown goes to `sink`.
    ///
    /// # Errors
    ///
    /// If the ring can't be mapped.
    pub fn new(probe: &Probe, sink: Sink) -> Result<Self> {
        let joiner = Rc::new(RefCell::new(Joiner {
            pending: Vec::new(),
            names: Names(Rc::clone(&probe.causes)),
            stacks: Interner::default(),
            whole: Shootdown::default(),
            sink,
            incomplete: 0,
        }));
        let theirs = Rc::clone(&joiner);
        let ring = Ring::new(&probe.maps.records, move |bytes| {
            // never borrowed while the ring is read: Records' own methods end before they read it
            if let Ok(mut joiner) = theirs.try_borrow_mut() {
                joiner.take(bytes);
            }
        })?;
        Ok(Self { ring, joiner })
    }

    /// Reads what is there, without waiting, up to a bound; true if there may be more. Without the
    /// bound, culprits faster than this reader would keep it from everything else.
    ///
    /// # Errors
    ///
    /// If libbpf fails to read.
    pub fn drain(&self) -> Result<bool> {
        self.ring.read(AT_ONCE)
    }

    /// Passes on the rounds that nothing came after. Call it once the probe is detached.
    ///
    /// # Errors
    ///
    /// If libbpf fails to read.
    pub fn finish(&self) -> Result<()> {
        while self.drain()? {}
        self.joiner.borrow_mut().finish();
        Ok(())
    }

    /// The stacks that were seen for the first time since the last call.
    #[must_use]
    pub fn new_stacks(&self) -> Vec<NewStack> {
        self.joiner.borrow_mut().stacks.take_new()
    }

    /// Shootdowns of which some record was lost, and so the culprit or a victim.
    #[must_use]
    pub fn incomplete(&self) -> u64 {
        self.joiner.borrow().incomplete
    }
}

/// Where the joiner learns causes.
struct Names(Rc<RefCell<Causes>>);

impl Names {
    fn of(&self, culprit: u32) -> (Cause, i16) {
        self.0
            .try_borrow_mut()
            .map_or((Cause::Other, layout::NR_FAULT), |mut c| c.cause(culprit))
    }
}

/// One CPU's round in flight.
#[derive(Default)]
struct Pending {
    seq: u32,
    send: Option<SendRecord>,
    victims: Vec<VictimRecord>,
    /// When the last victim was done, where some may be out of scope; else 0.
    end_ns: u64,
}

struct Joiner {
    pending: Vec<Pending>,
    names: Names,
    stacks: Interner,
    /// Written anew for every shootdown, so that its list of victims keeps its memory.
    whole: Shootdown,
    sink: Sink,
    incomplete: u64,
}

impl Joiner {
    fn take(&mut self, bytes: &[u8]) {
        match bytes.first() {
            Some(&RECORD_SEND) => {
                if let Some(send) = layout::read::<SendRecord>(bytes) {
                    self.round(send.cpu, send.seq).send = Some(send);
                }
            }
            Some(&RECORD_VICTIM) => {
                if let Some(victim) = layout::read::<VictimRecord>(bytes) {
                    self.round(victim.culprit_cpu, victim.seq)
                        .victims
                        .push(victim);
                }
            }
            Some(&RECORD_END) => {
                if let Some(end) = layout::read::<EndRecord>(bytes) {
                    self.round(end.culprit_cpu, end.seq).end_ns = end.end_ns;
                }
            }
            _ => {}
        }
    }

    /// The round that a record belongs to; closes the one before it.
    fn round(&mut self, cpu: u16, seq: u32) -> &mut Pending {
        let cpu = usize::from(cpu);
        if self.pending.len() <= cpu {
            self.pending.resize_with(cpu + 1, Pending::default);
        }
        if self.pending[cpu].seq != seq {
            self.close(cpu);
            self.pending[cpu].seq = seq;
        }
        &mut self.pending[cpu]
    }

    fn finish(&mut self) {
        for cpu in 0..self.pending.len() {
            self.close(cpu);
        }
    }

    fn close(&mut self, cpu: usize) {
        let round = &mut self.pending[cpu];
        let send = round.send.take();
        let Some(send) = send else {
            round.end_ns = 0;
            if !round.victims.is_empty() {
                self.incomplete += 1;
                round.victims.clear();
            }
            return;
        };
        let s = &mut self.whole;
        (s.cause, s.syscall) = self.names.of(send.culprit);
        s.t_ns = send.t_ns;
        s.pid = send.tgid;
        s.tid = send.tid;
        s.comm = Comm(send.comm);
        s.cpu = send.cpu;
        s.cgroup = send.cgroup;
        s.start = send.start;
        s.end = send.end;
        s.own_mm = send.flags & layout::SEND_OWN != 0;
        s.kernel_stack = self.stacks.kernel(send.kstack);
        s.user_stack = if send.ustack >= 0 || send.caller != 0 {
            self.stacks.user(send.tgid, send.ustack, send.caller)
        } else {
            NO_STACK
        };
        s.victims.clear();
        let mut end = send.t_ns.max(std::mem::take(&mut round.end_ns));
        for v in round.victims.drain(..) {
            end = end.max(v.end_ns);
            s.victims.push(Victim {
                cpu: v.cpu,
                pid: v.tgid,
                tid: v.tid,
                comm: Comm(v.comm),
                bystander: v.bystander != 0,
                delay_ns: v.delay_ns,
                stall_ns: v.stall_ns,
            });
        }
        s.wait_ns = end.saturating_sub(send.t_ns);
        // a round that no victim in scope makes count has a record, but no victims
        let seen = s.victims.len();
        let targets = usize::try_from(send.targets).unwrap_or(seen);
        s.unseen = u16::try_from(targets.saturating_sub(seen)).unwrap_or(u16::MAX);
        if seen > 0 || s.unseen > 0 {
            (self.sink)(s);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn send(cpu: u16, seq: u32, t_ns: u64, targets: u32) -> SendRecord {
        SendRecord {
            kind: RECORD_SEND,
            cpu,
            seq,
            t_ns,
            targets,
            kstack: -1,
            ustack: -1,
            ..SendRecord::default()
        }
    }

    fn victim(culprit_cpu: u16, cpu: u16, seq: u32, end_ns: u64) -> VictimRecord {
        VictimRecord {
            kind: RECORD_VICTIM,
            cpu,
            culprit_cpu,
            seq,
            end_ns,
            ..VictimRecord::default()
        }
    }

    /// A joiner whose index of culprits is never asked, and what it passed on.
    fn joiner() -> (Joiner, Rc<RefCell<Vec<Shootdown>>>) {
        let seen = Rc::new(RefCell::new(Vec::new()));
        let sink = Rc::clone(&seen);
        let joiner = Joiner {
            pending: Vec::new(),
            names: Names(Rc::new(RefCell::new(Causes::unattached()))),
            stacks: Interner::default(),
            whole: Shootdown::default(),
            sink: Box::new(move |s: &Shootdown| sink.borrow_mut().push(s.clone())),
            incomplete: 0,
        };
        (joiner, seen)
    }

    /// Check that records of two CPUs in any order become whole shootdowns, with wait until the last victim.
    #[test]
    fn records_join() {
        let (mut j, seen) = joiner();
        j.take(layout::bytes(&victim(0, 1, 1, 150)));
        j.take(layout::bytes(&send(1, 1, 300, 1)));
        j.take(layout::bytes(&send(0, 1, 100, 2)));
        j.take(layout::bytes(&victim(0, 2, 1, 180)));
        j.take(layout::bytes(&victim(1, 0, 1, 310)));
        j.take(layout::bytes(&send(0, 2, 400, 1)));
        assert_eq!(seen.borrow().len(), 1);
        j.finish();
        let seen = seen.borrow();
        let waits: Vec<_> = seen
            .iter()
            .map(|s| (s.cpu, s.wait_ns, s.victims.len(), s.unseen))
            .collect();
        assert_eq!(waits, [(0, 80, 2, 0), (0, 0, 0, 1), (1, 10, 1, 0)]);
    }

    /// Check that a wait lasts until the end that is told, if that comes after the victims in scope, and
    /// that the next round has none of it.
    #[test]
    fn out_of_scope_is_waited_for() {
        let (mut j, seen) = joiner();
        let end = EndRecord {
            kind: RECORD_END.into(),
            culprit_cpu: 0,
            seq: 1,
            end_ns: 190,
        };
        j.take(layout::bytes(&send(0, 1, 100, 0)));
        j.take(layout::bytes(&victim(0, 1, 1, 150)));
        j.take(layout::bytes(&end));
        j.take(layout::bytes(&send(0, 2, 120, 0)));
        j.take(layout::bytes(&victim(0, 1, 2, 160)));
        j.finish();
        let waits: Vec<_> = seen.borrow().iter().map(|s| s.wait_ns).collect();
        assert_eq!(waits, [90, 40]);
    }

    /// Check that a victim without its culprit's record is counted as incomplete, and not invented.
    #[test]
    fn lost_sends_are_counted() {
        let (mut j, seen) = joiner();
        j.take(layout::bytes(&victim(0, 1, 7, 150)));
        j.take(&[RECORD_SEND, 0, 0]);
        j.take(&[]);
        j.finish();
        assert_eq!(j.incomplete, 1);
        assert!(seen.borrow().is_empty());
    }
}
