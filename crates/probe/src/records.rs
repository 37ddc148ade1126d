//! Joins the records of the ring to whole shootdowns.
//!
//! A shootdown is one record of the culprit, one of each victim that was seen, and one of its end where the first can't
//! tell how many those are. All of them name the culprit's CPU and that CPU's count of rounds. Rounds of one CPU may
//! overlap, so that their records come mixed: a round is whole once all of its own are there.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use quell_event::{Cause, Comm, NO_STACK, Shootdown, ShootdownVictim};

use crate::causes::Causes;
use crate::error::Result;
use crate::interner::{NewStack, StackInterner};
use crate::layout::{
    self, EndRecord, RECORD_END, RECORD_SEND, RECORD_VICTIM, SendRecord, VictimRecord,
};
use crate::loader::Probe;
use crate::record_ring::RecordRing;

/// The most records that one call reads: a few ms of work.
const MAX_RECORDS_AT_ONCE: usize = 1 << 15;

/// Takes whole shootdowns.
pub type ShootdownSink = Box<dyn FnMut(&Shootdown)>;

/// Reads the records of a [`Probe`] that keeps [`crate::KeptDetail::Records`].
pub struct ShootdownRecords {
    ring: RecordRing,
    joiner: Rc<RefCell<RoundJoiner>>,
}

impl ShootdownRecords {
    /// Starts to read. Every whole shootdown goes to `sink`.
    ///
    /// # Errors
    ///
    /// If the ring can't be mapped.
    pub fn new(probe: &Probe, sink: ShootdownSink) -> Result<Self> {
        let joiner = Rc::new(RefCell::new(RoundJoiner {
            pending: Vec::new(),
            shot_last: HashMap::new(),
            names: CulpritNames(Rc::clone(&probe.causes)),
            stacks: StackInterner::default(),
            whole: Shootdown::default(),
            sink,
            incomplete: 0,
        }));
        let ring =
            RecordRing::with_receiver(&probe.maps.records, &joiner, RoundJoiner::add_record)?;
        Ok(Self { ring, joiner })
    }

    /// Reads the records that are there, without waiting, up to a bound; true if there may be more. Without the
    /// bound, culprits faster than this reader would keep it from everything else.
    ///
    /// # Errors
    ///
    /// If libbpf fails to read.
    pub fn read_records(&self) -> Result<bool> {
        self.ring.read_records(MAX_RECORDS_AT_ONCE)
    }

    /// Passes on the rounds that nothing came after. Call it once the probe is detached.
    ///
    /// # Errors
    ///
    /// If libbpf fails to read.
    pub fn finish(&self) -> Result<()> {
        while self.read_records()? {}
        self.joiner.borrow_mut().give_up_pending();
        Ok(())
    }

    /// The stacks that were seen for the first time since the last call.
    #[must_use]
    pub fn new_stacks(&self) -> Vec<NewStack> {
        self.joiner.borrow_mut().stacks.take_new()
    }

    /// How many shootdowns lack the culprit or a victim, because a record was lost.
    #[must_use]
    pub fn incomplete(&self) -> u64 {
        self.joiner.borrow().incomplete
    }
}

/// Where the joiner looks up causes and names.
struct CulpritNames(Rc<RefCell<Causes>>);

impl CulpritNames {
    fn cause_and_syscall(&self, culprit: u32) -> (Cause, i16) {
        self.0
            .try_borrow_mut()
            .map_or((Cause::Other, layout::NR_FAULT), |mut c| {
                c.cause_and_syscall(culprit)
            })
    }

    /// The name that a process has once it runs the program which it was starting.
    fn after_exec(&self, culprit: u32) -> Option<Comm> {
        self.0.try_borrow().ok()?.culprit_comm(culprit)
    }
}

/// A round that has some of its records.
#[derive(Default)]
struct PendingRound {
    seq: u32,
    send: Option<SendRecord>,
    victims: Vec<VictimRecord>,
    end: Option<EndRecord>,
}

impl PendingRound {
    /// How many records of victims there are to be, once that is known.
    fn expected_victims(&self) -> Option<u32> {
        let told = self.send.filter(|send| send.targets > 0);
        self.end
            .map(|end| end.victims)
            .or_else(|| told.map(|send| send.targets))
    }

    fn is_whole(&self) -> bool {
        let seen = u32::try_from(self.victims.len()).unwrap_or(u32::MAX);
        self.send.is_some()
            && self
                .expected_victims()
                .is_some_and(|expected| seen >= expected)
    }
}

/// At most so many rounds of a CPU are begun and not counted, with one that is being counted. If there are more, records of
/// the oldest are lost.
const MAX_PENDING_ROUNDS: usize = layout::MAX_PLACES as usize + 1;

/// The most threads whose last shootdown is remembered.
const MAX_REMEMBERED_THREADS: usize = 1 << 16;

/// The clocks of two CPUs may be apart by so much.
const MAX_CLOCK_SKEW_NS: u64 = 1000;

struct RoundJoiner {
    /// The rounds of each CPU, the oldest first.
    pending: Vec<Vec<PendingRound>>,
    /// When each thread that shot lately did so last: its earlier shootdowns were over then.
    shot_last: HashMap<u32, u64>,
    names: CulpritNames,
    stacks: StackInterner,
    /// Written anew for every shootdown, so that its list of victims keeps its memory.
    whole: Shootdown,
    sink: ShootdownSink,
    incomplete: u64,
}

impl RoundJoiner {
    fn add_record(&mut self, bytes: &[u8]) {
        match bytes.first() {
            Some(&RECORD_SEND) => {
                if let Some(send) = layout::read_pod::<SendRecord>(bytes) {
                    if self.shot_last.len() >= MAX_REMEMBERED_THREADS {
                        self.shot_last.clear();
                    }
                    let last = self.shot_last.entry(send.tid).or_default();
                    *last = send.t_ns.max(*last);
                    self.add_to_round(send.cpu, send.seq, |round| round.send = Some(send));
                }
            }
            Some(&RECORD_VICTIM) => {
                if let Some(victim) = layout::read_pod::<VictimRecord>(bytes) {
                    self.add_to_round(victim.culprit_cpu, victim.seq, |round| {
                        round.victims.push(victim);
                    });
                }
            }
            Some(&RECORD_END) => {
                if let Some(end) = layout::read_pod::<EndRecord>(bytes) {
                    self.add_to_round(end.culprit_cpu, end.seq, |round| round.end = Some(end));
                }
            }
            _ => {}
        }
    }

    /// Adds a record to the round that it belongs to, and passes that on if it is whole.
    fn add_to_round(&mut self, cpu: u16, seq: u32, add: impl FnOnce(&mut PendingRound)) {
        let cpu = usize::from(cpu);
        if self.pending.len() <= cpu {
            self.pending.resize_with(cpu + 1, Vec::new);
        }
        let rounds = &mut self.pending[cpu];
        let at = rounds
            .iter()
            .rposition(|round| round.seq == seq)
            .unwrap_or_else(|| {
                rounds.push(PendingRound {
                    seq,
                    ..PendingRound::default()
                });
                rounds.len() - 1
            });
        add(&mut rounds[at]);
        if rounds[at].is_whole() {
            let round = rounds.remove(at);
            self.pass_on(round);
        } else if rounds.len() > MAX_PENDING_ROUNDS {
            let oldest = rounds.remove(0);
            self.give_up(oldest);
        }
    }

    fn give_up_pending(&mut self) {
        for round in std::mem::take(&mut self.pending).into_iter().flatten() {
            self.give_up(round);
        }
    }

    /// Passes on a round whose last records do not come, as far as it is known, and counts it as incomplete.
    fn give_up(&mut self, round: PendingRound) {
        self.incomplete += 1;
        self.pass_on(round);
    }

    fn pass_on(&mut self, round: PendingRound) {
        let Some(send) = round.send else { return };
        let s = &mut self.whole;
        (s.cause, s.syscall) = self.names.cause_and_syscall(send.culprit);
        s.t_ns = send.t_ns;
        s.pid = send.tgid;
        s.tid = send.tid;
        s.comm = Comm(send.comm);
        if s.cause == Cause::Exec && send.tgid == send.tid {
            s.comm = self.names.after_exec(send.culprit).unwrap_or(s.comm);
        }
        s.cpu = send.cpu;
        s.cgroup = send.cgroup;
        s.start = send.start;
        s.end = send.end;
        s.own_mm = send.flags & layout::SEND_OWN != 0;
        s.kernel_stack = self.stacks.intern_kernel(send.kstack);
        s.user_stack = if send.ustack >= 0 || send.caller != 0 {
            self.stacks.intern_user(send.tgid, send.ustack, send.caller)
        } else {
            NO_STACK
        };
        s.victims.clear();
        // A thread can't shoot again while it waits. A victim that is done later can't belong to this shootdown: that would be
        // a mistake of the probe, so it is left out and counted with those that were not seen.
        let latest = self.shot_last.get(&send.tid).copied();
        let latest = latest.filter(|&t_ns| t_ns > send.t_ns);
        let is_possible =
            |end_ns: u64| latest.is_none_or(|t_ns| end_ns <= t_ns + MAX_CLOCK_SKEW_NS);
        let mut end = send.t_ns;
        let mut unseen = send
            .targets
            .saturating_sub(u32::try_from(round.victims.len()).unwrap_or(u32::MAX));
        if let Some(record) = round.end {
            unseen = unseen.max(record.unseen);
            if is_possible(record.end_ns) {
                end = end.max(record.end_ns);
            }
        }
        for v in round.victims {
            if !is_possible(v.end_ns) {
                unseen += 1;
                continue;
            }
            end = end.max(v.end_ns);
            s.victims.push(ShootdownVictim {
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
        s.unseen = u16::try_from(unseen).unwrap_or(u16::MAX);
        // A round that counts only with a victim in scope, and has none, has a record without victims.
        if !s.victims.is_empty() || s.unseen > 0 {
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
    fn joiner() -> (RoundJoiner, Rc<RefCell<Vec<Shootdown>>>) {
        let seen = Rc::new(RefCell::new(Vec::new()));
        let sink = Rc::clone(&seen);
        let joiner = RoundJoiner {
            pending: Vec::new(),
            shot_last: HashMap::new(),
            names: CulpritNames(Rc::new(RefCell::new(Causes::unattached()))),
            stacks: StackInterner::default(),
            whole: Shootdown::default(),
            sink: Box::new(move |s: &Shootdown| sink.borrow_mut().push(s.clone())),
            incomplete: 0,
        };
        (joiner, seen)
    }

    fn end(culprit_cpu: u16, seq: u32, victims: u32, unseen: u32, end_ns: u64) -> EndRecord {
        EndRecord {
            kind: RECORD_END.into(),
            culprit_cpu,
            seq,
            end_ns,
            victims,
            unseen,
        }
    }

    /// Check that records of two CPUs in any order become whole shootdowns at once, with wait until the last victim.
    #[test]
    fn records_join() {
        let (mut j, seen) = joiner();
        j.add_record(layout::bytes_of(&victim(0, 1, 1, 150)));
        j.add_record(layout::bytes_of(&send(1, 1, 300, 1)));
        j.add_record(layout::bytes_of(&send(0, 1, 100, 2)));
        j.add_record(layout::bytes_of(&victim(0, 2, 1, 180)));
        j.add_record(layout::bytes_of(&victim(1, 0, 1, 310)));
        j.add_record(layout::bytes_of(&send(0, 2, 400, 1)));
        j.add_record(layout::bytes_of(&end(0, 2, 0, 1, 0)));
        let waits: Vec<_> = seen
            .borrow()
            .iter()
            .map(|s| (s.cpu, s.wait_ns, s.victims.len(), s.unseen))
            .collect();
        assert_eq!(waits, [(0, 80, 2, 0), (1, 10, 1, 0), (0, 0, 0, 1)]);
        j.give_up_pending();
        assert_eq!(j.incomplete, 0);
    }

    /// Check that rounds of one CPU that overlap keep apart, whichever is over first.
    #[test]
    fn overlapping_rounds_keep_apart() {
        let (mut j, seen) = joiner();
        j.add_record(layout::bytes_of(&send(0, 1, 100, 2)));
        j.add_record(layout::bytes_of(&send(0, 2, 110, 1)));
        j.add_record(layout::bytes_of(&victim(0, 3, 2, 130)));
        j.add_record(layout::bytes_of(&victim(0, 1, 1, 140)));
        j.add_record(layout::bytes_of(&send(0, 3, 150, 1)));
        j.add_record(layout::bytes_of(&victim(0, 2, 1, 190)));
        j.add_record(layout::bytes_of(&victim(0, 3, 3, 170)));
        let waits: Vec<_> = seen
            .borrow()
            .iter()
            .map(|s| (s.t_ns, s.wait_ns, s.victims.len()))
            .collect();
        assert_eq!(waits, [(110, 20, 1), (100, 90, 2), (150, 20, 1)]);
        assert!(j.pending.iter().all(Vec::is_empty));
    }

    /// Check that a wait lasts until the end that is told, if that comes after the victims in scope, that the next round has
    /// none of it, and that a round without a victim in scope is none.
    #[test]
    fn out_of_scope_is_waited_for() {
        let (mut j, seen) = joiner();
        j.add_record(layout::bytes_of(&send(0, 1, 100, 0)));
        j.add_record(layout::bytes_of(&victim(0, 1, 1, 150)));
        j.add_record(layout::bytes_of(&end(0, 1, 1, 0, 190)));
        j.add_record(layout::bytes_of(&send(0, 2, 120, 0)));
        j.add_record(layout::bytes_of(&victim(0, 1, 2, 160)));
        j.add_record(layout::bytes_of(&end(0, 2, 1, 0, 160)));
        j.add_record(layout::bytes_of(&send(0, 3, 200, 0)));
        j.add_record(layout::bytes_of(&end(0, 3, 0, 0, 210)));
        let waits: Vec<_> = seen.borrow().iter().map(|s| s.wait_ns).collect();
        assert_eq!(waits, [90, 40]);
        j.give_up_pending();
        assert_eq!(j.incomplete, 0);
    }

    /// Check that a victim that is done after its culprit shot again is left out, and counted as not seen.
    #[test]
    fn impossible_waits_are_left_out() {
        let (mut j, seen) = joiner();
        let of_thread = |seq, t_ns, targets| SendRecord {
            tid: 7,
            ..send(0, seq, t_ns, targets)
        };
        j.add_record(layout::bytes_of(&of_thread(1, 1_000, 2)));
        j.add_record(layout::bytes_of(&of_thread(2, 500_000, 1)));
        j.add_record(layout::bytes_of(&victim(0, 1, 1, 1_200)));
        j.add_record(layout::bytes_of(&victim(0, 2, 1, 2_470_000_000)));
        j.add_record(layout::bytes_of(&victim(0, 1, 2, 500_300)));
        let waits: Vec<_> = seen
            .borrow()
            .iter()
            .map(|s| (s.wait_ns, s.victims.len(), s.unseen))
            .collect();
        assert_eq!(waits, [(200, 1, 1), (300, 1, 0)]);
    }

    /// Check that a round of which records are lost is counted as incomplete, that nothing is invented for it, and that it
    /// does not stay for ever.
    #[test]
    fn lost_records_are_counted() {
        let (mut j, seen) = joiner();
        j.add_record(layout::bytes_of(&victim(0, 1, 7, 150)));
        j.add_record(&[RECORD_SEND, 0, 0]);
        j.add_record(&[]);
        j.give_up_pending();
        assert_eq!(j.incomplete, 1);
        assert!(seen.borrow().is_empty());
        j.add_record(layout::bytes_of(&send(0, 8, 100, 2)));
        for seq in 9..40 {
            j.add_record(layout::bytes_of(&send(0, seq, 200, 1)));
            j.add_record(layout::bytes_of(&victim(0, 1, seq, 210)));
            j.add_record(layout::bytes_of(&send(1, seq, 200, 1)));
        }
        assert!(
            j.pending
                .iter()
                .all(|rounds| rounds.len() <= MAX_PENDING_ROUNDS)
        );
        assert!(j.incomplete > 20, "{}", j.incomplete);
    }
}
