//! What the records of the account say, summed up as they come: memory grows with what is told apart, not with time.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use libbpf_rs::MapHandle;
use quell_event::trace::{Frame, Stack, StackCost, StackKind};
use quell_event::{
    Account, AccountRow, Comm, HolderRole, HolderRow, Mechanism, Part, ProcessTime, Text,
};

use super::layout::{FORK, ForkRecord, SAMPLE, SampleHead, THREAD, ThreadRecord, WAIT, WaitRecord};
use super::singles::{self, Found, Singles, SinglesTaken};
use super::sort::{Sorted, sort, sort_by_call};
use super::{clocks, holder};
use crate::causes::{self, Causes};
use crate::layout as shared;
use crate::recent::Recent;
use crate::resolve::{Resolver, kernel_stack};
use crate::unwind::{Pieces, is_of_piece};

/// So many user stacks are told apart; those that come later have no function.
const MAX_STACKS: usize = 1 << 16;
/// So many kernel stacks are remembered; then they are looked up anew.
const MAX_KERNEL: usize = 1 << 13;
/// So many kernel stacks are told apart for who keeps samples and waits one by one; those that come later have no number. Each
/// takes some three kilobytes of a trace.
const MAX_KERNEL_NUMBERS: usize = 1 << 12;
/// So many more are told apart of waits, which have few, so that samples leave room for them.
const MORE_OF_WAITS: usize = 1 << 11;
/// So many processes are told apart, for somebody may watch for weeks; those that come later are one, of number 0.
const MAX_PROCESSES: usize = 1 << 14;
/// So many holders are told apart.
const MAX_HOLDERS: usize = 1 << 12;

/// The numbers of these stacks begin here, so that one resolver may name them beside those of shootdowns.
const FIRST_STACK: u32 = 1 << 30;

/// A stack without a number.
pub(super) const NO_STACK: u32 = 0;

/// A way to the kernel: the same addresses may mean something else in another call.
type KernelKey = (Box<[u64]>, i32);

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct RowKey {
    pid: u32,
    mechanism: Mechanism,
    part: Part,
    /// And one; 0 for none.
    advice: u32,
    stack: u32,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct HolderKey {
    pid: u32,
    mechanism: Mechanism,
    holder_pid: u32,
    comm: Comm,
    doing: String,
    role: HolderRole,
}

/// Where a stack comes from.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
struct Origin {
    function: Text,
    file: Text,
    /// The function of an allocator that it called, with its file.
    allocator: Text,
    /// It does not go on to where its thread began.
    ends_early: bool,
}

#[derive(Clone, Copy, Default)]
struct Cost {
    samples: u64,
    waits: u64,
    blocked_ns: u64,
    longest_ns: u64,
}

impl Cost {
    fn waited(&mut self, ns: u64) {
        self.waits += 1;
        self.blocked_ns += ns;
        self.longest_ns = self.longest_ns.max(ns);
    }

    fn add(&mut self, other: &Self) {
        self.samples += other.samples;
        self.waits += other.waits;
        self.blocked_ns += other.blocked_ns;
        self.longest_ns = self.longest_ns.max(other.longest_ns);
    }
}

/// A user stack that nobody has looked at yet.
struct UnresolvedStack {
    id: u32,
    pid: u32,
    /// Of a piece, or 0: then there are addresses.
    number: i32,
    addresses: Vec<u64>,
    caller: u64,
}

/// Everything that was seen.
pub(super) struct Seen {
    wait_stacks: MapHandle,
    causes: Rc<RefCell<Causes>>,
    kernel: HashMap<KernelKey, Option<Told>>,
    /// By the numbers that the map of stacks has for them.
    kernel_waits: HashMap<(i32, i32, u32), Option<Told>>,
    /// By their functions, one to a line.
    kernel_numbers: HashMap<String, u32>,
    user: HashMap<(u32, Box<[u64]>, u64), u32>,
    user_waits: HashMap<(u32, i32, u64), u32>,
    /// By the number of the piece that there is of them.
    in_pieces: Recent<i32, u32>,
    new: Vec<UnresolvedStack>,
    /// So many numbers were given.
    numbers: u32,
    /// Of so many of them the maps have been asked for.
    maps_seen: usize,
    /// Found, and not named yet.
    stacks: Vec<Stack>,
    /// Of each that has been named.
    origins: HashMap<u32, Origin>,
    rows: HashMap<RowKey, Cost>,
    holders: HashMap<HolderKey, Cost>,
    processes: HashMap<u32, ProcessTime>,
    /// Samples and waits one by one, if they are wanted.
    singles: Option<Singles>,
}

/// What a kernel stack tells.
#[derive(Clone, Copy)]
struct Told {
    sorted: Sorted,
    /// Its number, where samples and waits are kept one by one.
    number: u32,
}

/// The functions of a kernel stack.
struct Names {
    symbols: Vec<Option<String>>,
    /// With addresses where there is no name.
    all: Vec<String>,
}

fn found(sorted: Sorted, kernel_stack: u32, user_stack: u32) -> Found {
    Found {
        sorted,
        kernel_stack,
        user_stack,
    }
}

impl Seen {
    pub(super) fn new(wait_stacks: MapHandle, causes: Rc<RefCell<Causes>>) -> Self {
        Self {
            wait_stacks,
            causes,
            kernel: HashMap::new(),
            kernel_waits: HashMap::new(),
            kernel_numbers: HashMap::new(),
            user: HashMap::new(),
            user_waits: HashMap::new(),
            in_pieces: Recent::new(2 * MAX_STACKS),
            new: Vec::new(),
            numbers: 0,
            maps_seen: 0,
            stacks: Vec::new(),
            origins: HashMap::new(),
            rows: HashMap::new(),
            holders: HashMap::new(),
            processes: HashMap::new(),
            singles: None,
        }
    }

    /// Keeps samples and waits one by one from now on.
    pub(super) fn keep_singles(&mut self) {
        self.singles.get_or_insert_default();
    }

    /// Samples and waits since the last call. Those whose stack nobody has looked at yet are among them, so this is to be
    /// called after [`Self::resolve`]: later a stack may turn out to have a number already.
    pub(super) fn take_singles(&mut self) -> SinglesTaken {
        self.singles.as_mut().map(Singles::take).unwrap_or_default()
    }

    /// Takes a record; one that only a newer object would write is left out.
    pub(super) fn take(&mut self, bytes: &[u8]) {
        match bytes.first_chunk().copied().map(u32::from_ne_bytes) {
            Some(SAMPLE) => self.take_sample(bytes),
            Some(WAIT) => {
                if let Some(mut wait) = shared::read::<WaitRecord>(bytes) {
                    wait.tgid = self.told_apart(wait.tgid);
                    self.take_wait(&wait);
                }
            }
            Some(THREAD) => {
                if let Some(ended) = shared::read::<ThreadRecord>(bytes) {
                    let pid = self.told_apart(ended.tgid);
                    clocks::add(self.process(pid), ended.run_ns, &ended.sums);
                }
            }
            Some(FORK) => {
                if let Some(fork) = shared::read::<ForkRecord>(bytes) {
                    let pid = self.told_apart(fork.tgid);
                    self.process(pid).forks += 1;
                }
            }
            _ => {}
        }
    }

    fn told_apart(&self, pid: u32) -> u32 {
        let known = self.processes.len() < MAX_PROCESSES || self.processes.contains_key(&pid);
        if known { pid } else { 0 }
    }

    fn process(&mut self, pid: u32) -> &mut ProcessTime {
        self.processes.entry(pid).or_insert_with(|| ProcessTime {
            pid,
            ..ProcessTime::default()
        })
    }

    fn named(&mut self, pid: u32, comm: [u8; 16]) -> &mut ProcessTime {
        let process = self.process(pid);
        // it changes with exec: the last one counts
        let comm = Text::from(Comm(comm).text());
        if process.comm != comm {
            process.comm = comm;
        }
        process
    }

    fn take_sample(&mut self, bytes: &[u8]) {
        let Some(mut head) = shared::read::<SampleHead>(bytes) else {
            return;
        };
        head.tgid = self.told_apart(head.tgid);
        let frames = bytes.get(size_of::<SampleHead>()..).unwrap_or_default();
        let mut frames = frames
            .chunks_exact(8)
            .filter_map(|b| b.try_into().ok().map(u64::from_ne_bytes));
        let kernel: Box<[u64]> = frames.by_ref().take(head.kernel_frames.into()).collect();
        self.named(head.tgid, head.comm).samples += 1;
        let Some(Told { sorted, number }) = self.sort_kernel(kernel, head.nr) else {
            if let Some(singles) = &mut self.singles {
                singles.sample(&head, None);
            }
            return;
        };
        let stack = if is_of_piece(head.ustack) {
            self.stack_in_pieces(head.tgid, head.ustack)
        } else {
            let user = frames.take(head.user_frames.into()).collect();
            self.user_stack(head.tgid, user, head.caller)
        };
        self.cost(head.tgid, sorted, head.advice, stack).samples += 1;
        if let Some(singles) = &mut self.singles {
            let found = found(sorted, number, stack);
            singles.sample(&head, Some(found));
        }
    }

    fn take_wait(&mut self, wait: &WaitRecord) {
        self.named(wait.tgid, wait.comm);
        let Some(Told { sorted, number }) = self.sort_wait(wait) else {
            return;
        };
        let stack = self.user_stack_of_wait(wait);
        if let Some(singles) = &mut self.singles {
            singles.wait(wait, found(sorted, number, stack));
        }
        self.cost(wait.tgid, sorted, wait.advice, stack)
            .waited(wait.ns);
        if let Some(role) = singles::role(wait) {
            let key = HolderKey {
                pid: wait.tgid,
                mechanism: sorted.mechanism,
                holder_pid: wait.holder.tgid,
                comm: Comm(wait.holder.comm),
                doing: singles::doing(wait),
                role,
            };
            if self.holders.len() < MAX_HOLDERS || self.holders.contains_key(&key) {
                self.holders.entry(key).or_default().waited(wait.ns);
            }
        }
    }

    fn cost(&mut self, pid: u32, sorted: Sorted, advice: u32, stack: u32) -> &mut Cost {
        let key = RowKey {
            pid,
            mechanism: sorted.mechanism,
            part: sorted.part,
            // what a program told the kernel matters where that is what took the time
            advice: if sorted.mechanism == Mechanism::Advise {
                advice
            } else {
                0
            },
            stack,
        };
        self.rows.entry(key).or_default()
    }

    /// What a kernel stack tells that was sorted, with a number where one is wanted.
    fn told(
        &mut self,
        addresses: &[u64],
        names: &Names,
        sorted: Option<Sorted>,
        most: usize,
    ) -> Option<Told> {
        let sorted = sorted?;
        let number = if self.singles.is_some() {
            self.number_kernel(addresses, names, most)
        } else {
            NO_STACK
        };
        Some(Told { sorted, number })
    }

    fn kernel_names(&self, addresses: &[u64]) -> Option<Names> {
        let symbols = self.causes.borrow().kernel_symbols(addresses).ok()?;
        let all = causes::or_addresses(&symbols, addresses);
        Some(Names { symbols, all })
    }

    /// A number of the functions: where within them a sample fell makes no other stack.
    fn number_kernel(&mut self, addresses: &[u64], names: &Names, most: usize) -> u32 {
        let key = names.all.join("\n");
        if let Some(&known) = self.kernel_numbers.get(&key) {
            return known;
        }
        if self.kernel_numbers.len() >= most {
            return NO_STACK;
        }
        let id = self.next_number();
        let stack = kernel_stack(id, addresses, Some(&names.symbols));
        self.stacks.push(stack);
        self.kernel_numbers.insert(key, id);
        id
    }

    fn sort_kernel(&mut self, kernel: Box<[u64]>, nr: i32) -> Option<Told> {
        let key = (kernel, nr);
        if let Some(known) = self.kernel.get(&key) {
            return *known;
        }
        let names = self.kernel_names(&key.0);
        let told = names.and_then(|names| {
            let sorted = sort(&names.all, nr, false, 0);
            self.told(&key.0, &names, sorted, MAX_KERNEL_NUMBERS)
        });
        if self.kernel.len() >= MAX_KERNEL {
            self.kernel.clear();
        }
        self.kernel.insert(key, told);
        told
    }

    fn sort_wait(&mut self, wait: &WaitRecord) -> Option<Told> {
        let key = (wait.kstack, wait.nr, wait.flags);
        if let Some(known) = self.kernel_waits.get(&key) {
            return *known;
        }
        let addresses = match causes::stack(&self.wait_stacks, wait.kstack) {
            Ok(addresses) if wait.kstack >= 0 => addresses,
            _ => Vec::new(),
        };
        let names = (wait.kstack >= 0).then(|| self.kernel_names(&addresses));
        let told = match names.flatten() {
            Some(names) => {
                let sorted = sort(&names.all, wait.nr, true, wait.flags);
                self.told(
                    &addresses,
                    &names,
                    sorted,
                    MAX_KERNEL_NUMBERS + MORE_OF_WAITS,
                )
            }
            None => sort_by_call(wait.nr, wait.flags).map(|sorted| Told {
                sorted,
                number: NO_STACK,
            }),
        };
        if wait.kstack >= 0 {
            self.kernel_waits.insert(key, told);
        }
        told
    }

    fn user_stack(&mut self, pid: u32, addresses: Vec<u64>, caller: u64) -> u32 {
        if addresses.is_empty() {
            return NO_STACK;
        }
        let key = (pid, addresses.into_boxed_slice(), caller);
        if let Some(known) = self.user.get(&key) {
            return *known;
        }
        let Some(id) = self.next_stack() else {
            return NO_STACK;
        };
        self.new.push(UnresolvedStack {
            id,
            pid,
            number: 0,
            addresses: key.1.to_vec(),
            caller,
        });
        self.user.insert(key, id);
        id
    }

    /// The stack with a piece of this number.
    fn stack_in_pieces(&mut self, pid: u32, number: i32) -> u32 {
        if let Some(known) = self.in_pieces.get(number) {
            return known;
        }
        let Some(id) = self.next_stack() else {
            return NO_STACK;
        };
        self.new.push(UnresolvedStack {
            id,
            pid,
            number,
            addresses: Vec::new(),
            caller: 0,
        });
        self.in_pieces.insert(number, id);
        id
    }

    fn next_stack(&mut self) -> Option<u32> {
        if self.user.len() + self.new.len() >= MAX_STACKS {
            return None;
        }
        Some(self.next_number())
    }

    fn next_number(&mut self) -> u32 {
        self.numbers = (self.numbers + 1) % FIRST_STACK;
        FIRST_STACK + self.numbers
    }

    fn user_stack_of_wait(&mut self, wait: &WaitRecord) -> u32 {
        if is_of_piece(wait.ustack) {
            return self.stack_in_pieces(wait.tgid, wait.ustack);
        }
        let key = (wait.tgid, wait.ustack, wait.caller);
        if let Some(known) = self.user_waits.get(&key) {
            return *known;
        }
        let addresses = match wait.ustack {
            0.. => causes::stack(&self.wait_stacks, wait.ustack).unwrap_or_default(),
            _ => Vec::new(),
        };
        let id = self.user_stack(wait.tgid, addresses, wait.caller);
        if self.user_waits.len() < MAX_STACKS {
            self.user_waits.insert(key, id);
        }
        id
    }

    /// Has the maps read of processes with new stacks, once they are so old: that can't wait, for they may end.
    pub(super) fn see(&mut self, resolver: &mut Resolver, age: Duration) {
        let mut last = 0;
        for new in &self.new[self.maps_seen.min(self.new.len())..] {
            if new.pid != last {
                last = new.pid;
                resolver.see(new.pid, age);
            }
        }
        self.maps_seen = self.new.len();
    }

    /// Finds the code of new user stacks.
    pub(super) fn resolve(&mut self, resolver: &mut Resolver, pieces: Option<&Pieces>) {
        let mut same = HashMap::new();
        for new in std::mem::take(&mut self.new) {
            if !is_of_piece(new.number) {
                let stack = resolver.user_stack(new.id, new.pid, new.addresses, new.caller);
                self.stacks.push(stack);
                continue;
            }
            let Some(followed) = pieces.and_then(|p| p.followed(new.number)) else {
                continue;
            };
            if followed.single {
                self.in_pieces.remove(&new.number);
            }
            // another piece, or frame pointers, may have told of the same stack
            let addresses = followed.addresses.clone().into_boxed_slice();
            let key = (new.pid, addresses, followed.caller);
            if let Some(&known) = self.user.get(&key) {
                same.insert(new.id, known);
                if !followed.single {
                    self.in_pieces.insert(new.number, known);
                }
                continue;
            }
            self.user.insert(key, new.id);
            let stack = resolver.followed_stack(new.id, new.pid, followed);
            self.stacks.push(stack);
        }
        self.join(&same);
        self.maps_seen = 0;
    }

    /// Counts stacks under the numbers of those that they turned out to be.
    fn join(&mut self, same: &HashMap<u32, u32>) {
        if same.is_empty() {
            return;
        }
        if let Some(singles) = &mut self.singles {
            singles.join(same);
        }
        let theirs = |key: &RowKey, _: &mut Cost| same.contains_key(&key.stack);
        let moved: Vec<(RowKey, Cost)> = self.rows.extract_if(theirs).collect();
        for (key, cost) in moved {
            let stack = same.get(&key.stack).copied().unwrap_or(key.stack);
            let key = RowKey { stack, ..key };
            self.rows.entry(key).or_default().add(&cost);
        }
    }

    /// The stacks that were resolved since the last call: whoever takes them has them named, and tells by
    /// [`Self::learn`].
    pub(super) fn take_stacks(&mut self) -> Vec<Stack> {
        std::mem::take(&mut self.stacks)
    }

    /// Learns the functions of stacks that have been named.
    pub(super) fn learn(&mut self, stacks: &[Stack]) {
        let of_programs = stacks.iter().filter(|s| s.kind == StackKind::User);
        let named = of_programs.map(|s| (s.id, origin(s)));
        self.origins.extend(named);
    }

    /// What each stack cost; CPU time is left to whoever knows what a sample stands for.
    pub(super) fn costs(&self) -> Vec<StackCost> {
        let comm = |pid| self.processes.get(&pid).map(|p| p.comm.clone());
        let costs = self.rows.iter().map(|(key, cost)| StackCost {
            pid: key.pid,
            comm: comm(key.pid).unwrap_or_default(),
            mechanism: key.mechanism,
            part: key.part,
            stack: (key.stack != NO_STACK).then_some(key.stack),
            samples: cost.samples,
            cpu_ns: 0,
            waits: cost.waits,
            blocked_ns: cost.blocked_ns,
            longest_ns: cost.longest_ns,
        });
        let mut costs: Vec<_> = costs.collect();
        // maps have no order
        costs.sort_by_key(|c| (c.pid, c.mechanism, c.part, c.stack));
        costs
    }

    /// Everything, with functions as far as they have been named.
    pub(super) fn account(&self) -> Account {
        let origins = &self.origins;
        let mut account = Account::default();
        // stacks of one function are one row
        let mut rows: HashMap<(u32, Mechanism, Part, u32, Origin), Cost> = HashMap::new();
        for (key, cost) in &self.rows {
            let origin = origins.get(&key.stack);
            if let Some(origin) = origin {
                account.with_stack += cost.samples + cost.waits;
                if origin.ends_early {
                    account.early_ends += cost.samples + cost.waits;
                }
            }
            let mut origin = origin.cloned().unwrap_or_default();
            // no part of what tells rows apart
            origin.ends_early = false;
            let key = (key.pid, key.mechanism, key.part, key.advice, origin);
            rows.entry(key).or_default().add(cost);
        }
        for ((pid, mechanism, part, advice, origin), cost) in rows {
            account.rows.push(AccountRow {
                pid,
                mechanism,
                part,
                advice: match advice.checked_sub(1) {
                    Some(advice) => holder::advice(advice.into()).as_str().into(),
                    None => Text::default(),
                },
                function: origin.function,
                file: origin.file,
                allocator: origin.allocator,
                samples: cost.samples,
                waits: cost.waits,
                blocked_ns: cost.blocked_ns,
                longest_ns: cost.longest_ns,
            });
        }
        for (key, cost) in &self.holders {
            account.holders.push(HolderRow {
                pid: key.pid,
                mechanism: key.mechanism,
                holder_pid: key.holder_pid,
                holder_comm: key.comm.text().as_ref().into(),
                doing: key.doing.as_str().into(),
                role: key.role,
                waits: cost.waits,
                blocked_ns: cost.blocked_ns,
                longest_ns: cost.longest_ns,
            });
        }
        account.processes = self.processes.values().cloned().collect();
        // maps have no order
        account.rows.sort_by(|a, b| {
            let key = |r: &AccountRow| (r.pid, r.mechanism, r.part);
            (key(a), &a.advice, &a.function, &a.file).cmp(&(
                key(b),
                &b.advice,
                &b.function,
                &b.file,
            ))
        });
        account
            .holders
            .sort_by(|a, b| (a.pid, a.holder_pid, &a.doing).cmp(&(b.pid, b.holder_pid, &b.doing)));
        account.processes.sort_by_key(|p| p.pid);
        account
    }
}

/// Files whose code works for whoever called it: who that is is the question.
const LIBRARIES: &[&str] = &[
    "libc.so",
    "libc-",
    "ld-linux",
    "ld-musl",
    "libpthread",
    "libstdc++",
    "libffi",
    "libquell",
];

/// Files of allocators. Whoever asks them is the one to know, and they too.
const ALLOCATORS: &[&str] = &[
    "libtcmalloc",
    "libjemalloc",
    "libmimalloc",
    "libhoard",
    "libsnmalloc",
    "librpmalloc",
    "libscudo",
];

/// Functions of the C library that are its allocator's.
const MALLOC: &[&str] = &[
    "malloc",
    "calloc",
    "realloc",
    "free",
    "cfree",
    "memalign",
    "aligned_alloc",
    "posix_memalign",
    "valloc",
    "pvalloc",
    "malloc_trim",
    "__libc_malloc",
    "__libc_calloc",
    "__libc_realloc",
    "__libc_free",
    "__libc_memalign",
    "__malloc_trim",
];

fn is_one_of(name: &str, begins: &[&str]) -> bool {
    begins.iter().any(|begin| name.starts_with(begin))
}

/// The function that had it done, and its file: the innermost outside of the C library and of allocators, with the
/// allocator's function that it called, if it was one. Without any such, the innermost.
fn origin(stack: &Stack) -> Origin {
    let base = |frame: &Frame| {
        let module = frame.module.as_deref().unwrap_or_default();
        module.rsplit('/').next().unwrap_or(module).to_owned()
    };
    let is_known = |frame: &&Frame| frame.module.is_some() || frame.symbol.is_some();
    let mut allocator = Text::default();
    let mut first = None;
    for frame in stack.frames.iter().filter(is_known) {
        first = first.or(Some(frame));
        let file = base(frame);
        let symbol = frame.symbol.as_deref().unwrap_or_default();
        let is_library = is_one_of(&file, LIBRARIES);
        if is_one_of(&file, ALLOCATORS) || is_library && MALLOC.contains(&symbol) {
            // the outermost: what was called
            allocator = match symbol {
                "" => file.as_str().into(),
                _ => format!("{symbol} ({file})").as_str().into(),
            };
        } else if !is_library {
            return Origin {
                function: symbol.into(),
                file: file.as_str().into(),
                allocator,
                ends_early: stack.ends_early().is_some(),
            };
        }
    }
    Origin {
        function: first
            .and_then(|f| f.symbol.as_deref())
            .unwrap_or_default()
            .into(),
        file: first.map(base).unwrap_or_default().as_str().into(),
        allocator: Text::default(),
        ends_early: stack.ends_early().is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(symbol: Option<&str>, module: Option<&str>) -> Frame {
        Frame {
            symbol: symbol.map(str::to_owned),
            module: module.map(str::to_owned),
            ..Frame::default()
        }
    }

    /// Check that the C library's functions are passed over where somebody called them, and that a file without names
    /// is named.
    #[test]
    fn origins_are_outside_of_libraries() {
        let of = |frames: &[Frame]| {
            let stack = Stack {
                frames: frames.to_vec(),
                ..Stack::default()
            };
            let origin = origin(&stack);
            (origin.function.to_string(), origin.file.to_string())
        };
        let memset = frame(Some("memset"), Some("/lib/libc.so.6"));
        let caller = frame(Some("fill"), Some("/opt/app"));
        let told = |function: &str, file: &str| (function.to_owned(), file.to_owned());
        assert_eq!(of(&[memset.clone(), caller]), told("fill", "app"));
        assert_eq!(
            of(std::slice::from_ref(&memset)),
            told("memset", "libc.so.6")
        );
        assert_eq!(
            of(&[memset, frame(None, Some("/opt/x.so"))]),
            told("", "x.so")
        );
        assert_eq!(of(&[]), told("", ""));
    }

    /// Check that of an allocator the function that was called is named beside who called it, and that one without a
    /// caller is named itself.
    #[test]
    fn allocators_are_named_beside_their_callers() {
        let of = |frames: &[(&str, &str)]| {
            let frames = frames.iter().map(|(s, m)| frame(Some(s), Some(m)));
            let stack = Stack {
                frames: frames.collect(),
                ..Stack::default()
            };
            let origin = origin(&stack);
            format!("{} | {}", origin.function, origin.allocator)
        };
        let libc = "/lib/libc.so.6";
        let tc = "/usr/lib/libtcmalloc_minimal.so.4";
        let app = "/opt/app";
        let trim = [("madvise", libc), ("malloc_trim", libc), ("tidy", app)];
        assert_eq!(of(&trim), "tidy | malloc_trim (libc.so.6)");
        let release = [
            ("madvise", libc),
            ("SystemRelease", tc),
            ("Release", tc),
            ("main", app),
        ];
        assert_eq!(of(&release), "main | Release (libtcmalloc_minimal.so.4)");
        assert_eq!(of(&release[..3]), "madvise | ");
        assert_eq!(of(&[("memset", libc), ("fill", app)]), "fill | ");
    }
}
