//! The sums since the last look, by cgroup and mechanism, and by code: no row is kept for longer.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::rc::Rc;

use quell_event::{CgroupCost, CodeCost, Comm, Mechanism, Text, WatchInterval};

use super::super::mechanisms::{classify_by_call, classify_stack};
use super::layout::{SleepKey, SleepTally, WatchSampleHead};
use crate::causes::Causes;
use crate::layout as shared;

/// The most stacks of samples whose mechanism is remembered; then all are looked up anew.
const MAX_SAMPLE_STACKS: usize = 1 << 13;
/// The most stacks of sleeps whose addresses are remembered. The addresses and not the mechanism are kept, because the same
/// ones may mean something else in another call.
const MAX_SLEEP_STACKS: usize = 1 << 11;
/// The most rows of code between two looks; samples beyond are counted without a stack.
const MAX_CODE_ROWS: usize = 1 << 11;

/// The number of a cgroup's folder, as the rest of quell has it: without the highest bit of its generation.
fn cgroup_folder_number(id: u64) -> u64 {
    id & !(1 << 63)
}

#[derive(Default)]
struct WatchCost {
    samples: u64,
    sleeps: u64,
    blocked_ns: u64,
}

/// Code, by process, cgroup, mechanism and the program's stack.
type CodeKey = (u32, u64, Mechanism, Box<[u64]>);

/// The sums, and the stacks that are known from before.
pub(super) struct WatchSums {
    causes: Rc<RefCell<Causes>>,
    /// The mechanisms of samples, by a hash of the stack, and the call.
    samples: HashMap<(u64, i32), Option<Mechanism>>,
    /// The mechanisms of sleeps, by the hash that the programs give to a stack, and the call.
    sleeps: HashMap<(u64, i32), Option<Mechanism>>,
    stacks: HashMap<u64, Box<[u64]>>,
    rows: HashMap<(u64, Mechanism), WatchCost>,
    code: HashMap<CodeKey, (Text, u64)>,
    /// By cgroup and call, the sleeps that have a stack, also those that show no memory management.
    sleeps_with_stack: HashMap<(u64, i32), SleepShares>,
    /// By cgroup and call, the sleeps whose stack was not walked, because there were too many.
    sleeps_without_stack: HashMap<(u64, i32), SleepTally>,
}

/// Sleeps by mechanism.
type SleepShares = HashMap<Option<Mechanism>, SleepTally>;

/// The share of `ns` that `part` is of `all`, rounded.
fn rounded_share(ns: u64, part: u64, all: u64) -> u64 {
    if all == 0 {
        return 0;
    }
    (ns as f64 * (part as f64 / all as f64)).round() as u64
}

impl WatchSums {
    pub(super) fn new(causes: Rc<RefCell<Causes>>) -> Self {
        Self {
            causes,
            samples: HashMap::new(),
            sleeps: HashMap::new(),
            stacks: HashMap::new(),
            rows: HashMap::new(),
            code: HashMap::new(),
            sleeps_with_stack: HashMap::new(),
            sleeps_without_stack: HashMap::new(),
        }
    }

    /// Adds a sample to the sums.
    pub(super) fn add_sample(&mut self, bytes: &[u8]) {
        let Some(head) = shared::read_pod::<WatchSampleHead>(bytes) else {
            return;
        };
        let frames = bytes
            .get(size_of::<WatchSampleHead>()..)
            .unwrap_or_default();
        let mut frames = shared::words_of(frames);
        let kernel: Vec<u64> = frames.by_ref().take(head.kernel_frames.into()).collect();
        let Some(mechanism) = self.sample_mechanism(&kernel, head.nr) else {
            return;
        };
        let cgroup = cgroup_folder_number(head.cgroup);
        self.rows.entry((cgroup, mechanism)).or_default().samples += 1;
        let user: Box<[u64]> = frames.take(head.user_frames.into()).collect();
        let mut key = (head.tgid, cgroup, mechanism, user);
        if self.code.len() >= MAX_CODE_ROWS && !self.code.contains_key(&key) {
            key.3 = Box::default();
        }
        if self.code.len() < 2 * MAX_CODE_ROWS || self.code.contains_key(&key) {
            let comm = || Text::from(Comm(head.comm).as_text());
            let (_, samples) = self.code.entry(key).or_insert_with(|| (comm(), 0));
            *samples += 1;
        }
    }

    fn sample_mechanism(&mut self, kernel: &[u64], nr: i32) -> Option<Mechanism> {
        let mut hasher = DefaultHasher::new();
        kernel.hash(&mut hasher);
        let key = (hasher.finish(), nr);
        if let Some(known) = self.samples.get(&key) {
            return *known;
        }
        let names = self.causes.borrow().kernel_names(kernel);
        let class = names
            .ok()
            .and_then(|names| classify_stack(&names, nr, false, 0));
        let mechanism = class.map(|class| class.mechanism);
        if self.samples.len() >= MAX_SAMPLE_STACKS {
            self.samples.clear();
        }
        self.samples.insert(key, mechanism);
        mechanism
    }

    /// Remembers a stack by the hash that the programs gave it.
    pub(super) fn learn_stack(&mut self, name: u64, addresses: Box<[u64]>) {
        if self.stacks.len() >= MAX_SLEEP_STACKS && !self.stacks.contains_key(&name) {
            self.stacks.clear();
            self.sleeps.clear();
        }
        self.stacks.insert(name, addresses);
    }

    /// Adds so many more sleeps of one key.
    pub(super) fn add_sleep_tally(&mut self, key: &SleepKey, more: &SleepTally) {
        let of = (cgroup_folder_number(key.cgroup), key.nr);
        if key.stack == 0 {
            let tally = self.sleeps_without_stack.entry(of).or_default();
            tally.sleeps += more.sleeps;
            tally.ns += more.ns;
            return;
        }
        let mechanism = self.sleep_mechanism(key.stack, key.nr);
        let shares = self.sleeps_with_stack.entry(of).or_default();
        let share = shares.entry(mechanism).or_default();
        share.sleeps += more.sleeps;
        share.ns += more.ns;
        self.add_sleeps(of.0, mechanism, more);
    }

    fn add_sleeps(&mut self, cgroup: u64, mechanism: Option<Mechanism>, more: &SleepTally) {
        if let Some(mechanism) = mechanism {
            let cost = self.rows.entry((cgroup, mechanism)).or_default();
            cost.sleeps += more.sleeps;
            cost.blocked_ns += more.ns;
        }
    }

    /// Shares sleeps without a stack out over the mechanisms of the others of their cgroup and call, or gives them the
    /// mechanism of the call where there are no others.
    fn share_out(&mut self) {
        let sleeps_with_stack = std::mem::take(&mut self.sleeps_with_stack);
        for ((cgroup, nr), sleeps_without_stack) in std::mem::take(&mut self.sleeps_without_stack) {
            let Some(shares) = sleeps_with_stack.get(&(cgroup, nr)) else {
                let mechanism = classify_by_call(nr, 0).map(|class| class.mechanism);
                self.add_sleeps(cgroup, mechanism, &sleeps_without_stack);
                continue;
            };
            let all = shares
                .values()
                .fold((0, 0), |(n, ns), share| (n + share.sleeps, ns + share.ns));
            for (mechanism, share) in shares {
                let more = SleepTally {
                    sleeps: rounded_share(sleeps_without_stack.sleeps, share.sleeps, all.0),
                    ns: rounded_share(sleeps_without_stack.ns, share.ns, all.1),
                };
                self.add_sleeps(cgroup, *mechanism, &more);
            }
        }
    }

    fn sleep_mechanism(&mut self, stack: u64, nr: i32) -> Option<Mechanism> {
        if let Some(known) = self.sleeps.get(&(stack, nr)) {
            return *known;
        }
        let addresses = self.stacks.get(&stack);
        let names = addresses.and_then(|a| self.causes.borrow().kernel_names(a).ok());
        let Some(names) = names else {
            // The map of stacks had no room for it.
            return classify_by_call(nr, 0).map(|class| class.mechanism);
        };
        let mechanism = classify_stack(&names, nr, true, 0).map(|class| class.mechanism);
        self.sleeps.insert((stack, nr), mechanism);
        mechanism
    }

    /// The sums since the last call, the dearest first.
    pub(super) fn take_watched(&mut self) -> WatchInterval {
        self.share_out();
        let rows = std::mem::take(&mut self.rows).into_iter();
        let rows = rows.map(|((cgroup, mechanism), cost)| CgroupCost {
            cgroup,
            mechanism,
            samples: cost.samples,
            sleeps: cost.sleeps,
            blocked_ns: cost.blocked_ns,
        });
        let code = std::mem::take(&mut self.code).into_iter();
        let code = code.map(
            |((pid, cgroup, mechanism, addresses), (comm, samples))| CodeCost {
                pid,
                comm,
                cgroup,
                mechanism,
                samples,
                addresses: addresses.into_vec(),
            },
        );
        let mut watched = WatchInterval {
            rows: rows.collect(),
            code: code.collect(),
            ..WatchInterval::default()
        };
        // A hash map has no order, and output needs one.
        watched.rows.sort_by_key(|r| {
            (
                std::cmp::Reverse((r.samples, r.blocked_ns)),
                r.cgroup,
                r.mechanism,
            )
        });
        let code = &mut watched.code;
        code.sort_by(|a, b| {
            let key = |c: &CodeCost| (std::cmp::Reverse(c.samples), c.pid, c.mechanism);
            key(a)
                .cmp(&key(b))
                .then_with(|| a.addresses.cmp(&b.addresses))
        });
        watched
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums() -> WatchSums {
        WatchSums::new(Rc::new(RefCell::new(Causes::unattached())))
    }

    /// Check that sleeps without a stack are told by their call, that what is no memory management is not told, that both
    /// bits of a cgroup's number that differ are one cgroup, and that what was taken is gone.
    #[test]
    fn sleeps_are_summed_up() {
        let mut sums = sums();
        // of a stack that had no room
        let key = |cgroup, nr| SleepKey {
            cgroup,
            stack: 1,
            nr,
            zero: 0,
        };
        let more = SleepTally { sleeps: 2, ns: 30 };
        const MUNMAP: i32 = 11;
        const GETPID: i32 = 39;
        sums.add_sleep_tally(&key(7, MUNMAP), &more);
        sums.add_sleep_tally(&key(7 | 1 << 63, MUNMAP), &more);
        sums.add_sleep_tally(&key(8, GETPID), &more);
        let watched = sums.take_watched();
        let rows: Vec<_> = watched.rows.iter().collect();
        assert_eq!(rows.len(), 1, "{rows:?}");
        let row = (rows[0].cgroup, rows[0].mechanism, rows[0].sleeps);
        assert_eq!(row, (7, Mechanism::Unmap, 4));
        assert_eq!(rows[0].blocked_ns, 60);
        assert_eq!(sums.take_watched(), WatchInterval::default());
    }

    /// Check that sleeps whose stacks were not walked are shared out as the others of their cgroup and call are, with what is
    /// no memory management, and without any by the call.
    #[test]
    fn sleeps_without_stacks_are_shared_out() {
        const READ: i32 = 0;
        const MUNMAP: i32 = 11;
        let mut sums = sums();
        sums.sleeps
            .insert((1, READ), Some(Mechanism::ReclaimDirect));
        sums.sleeps.insert((2, READ), None);
        let key = |stack, nr| SleepKey {
            cgroup: 7,
            stack,
            nr,
            zero: 0,
        };
        let ns = |sleeps, ns| SleepTally { sleeps, ns };
        sums.add_sleep_tally(&key(0, READ), &ns(40, 4000));
        sums.add_sleep_tally(&key(1, READ), &ns(1, 300));
        sums.add_sleep_tally(&key(2, READ), &ns(3, 100));
        sums.add_sleep_tally(&key(0, MUNMAP), &ns(1, 50));
        let watched = sums.take_watched();
        let rows: Vec<_> = watched
            .rows
            .iter()
            .map(|r| (r.mechanism, r.sleeps, r.blocked_ns))
            .collect();
        assert_eq!(
            rows,
            [
                (Mechanism::ReclaimDirect, 11, 3300),
                (Mechanism::Unmap, 1, 50)
            ]
        );
        assert_eq!(sums.take_watched(), WatchInterval::default());
    }

    /// Check that stacks beyond the bound make room, and that a sample that is cut anywhere does no harm.
    #[test]
    fn memory_is_bounded() {
        let mut sums = sums();
        for n in 0..5 * MAX_SLEEP_STACKS as u64 {
            sums.learn_stack(n, Box::new([n]));
            assert!(sums.stacks.len() <= MAX_SLEEP_STACKS);
        }
        let head = WatchSampleHead {
            kernel_frames: 3,
            user_frames: 3,
            ..WatchSampleHead::default()
        };
        let mut bytes = shared::bytes_of(&head).to_vec();
        bytes.extend([0; 48]);
        for len in 0..=bytes.len() {
            sums.add_sample(&bytes[..len]);
        }
    }
}
