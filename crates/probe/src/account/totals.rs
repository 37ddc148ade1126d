//! The sums of the account's records, as they come: memory grows with the number of different stacks and processes, not with
//! time.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use libbpf_rs::MapHandle;
use quell_event::trace::{StackCost, StackFrame, StackKind, TracedStack};
use quell_event::{
    Account, AccountRow, Comm, HolderRole, HolderRow, Mechanism, MechanismPart, ProcessTime, Text,
};

use super::layout::{
    ACCOUNT_FORK, ACCOUNT_SAMPLE, ACCOUNT_THREAD, ACCOUNT_WAIT, AccountSampleHead, ForkRecord,
    ThreadRecord, WaitRecord,
};
use super::mechanisms::{StackClass, classify_by_call, classify_stack};
use super::singles::{self, RowStacks, Singles, SinglesTaken, UNNUMBERED_STACK};
use super::{holder, thread_clocks};
use crate::bpf_maps;
use crate::causes::{self, Causes};
use crate::layout as shared;
use crate::recent::RecentMap;
use crate::resolver::{StackResolver, kernel_stack};
use crate::unwind::{StackPieces, is_of_piece};

/// The most user stacks that are told apart; those that come later have no function.
const MAX_USER_STACKS: usize = 1 << 16;
/// The most kernel stacks whose class is remembered; then all are looked up anew.
const MAX_KERNEL_STACKS: usize = 1 << 13;
/// The most kernel stacks that are told apart where samples and waits are kept one by one; those that come later have no
/// number. Each takes some three kilobytes of a trace.
const MAX_KERNEL_NUMBERS: usize = 1 << 12;
/// So many more stacks of waits are told apart. Waits have few stacks, and samples are to leave room for them.
const MORE_WAIT_NUMBERS: usize = 1 << 11;
/// The most processes that are told apart, because somebody may watch for weeks; those that come later are summed up under
/// number 0.
const MAX_ACCOUNT_PROCESSES: usize = 1 << 14;
/// The most holders of locks that are told apart.
const MAX_HOLDERS: usize = 1 << 12;

/// The numbers of these stacks begin here, so that one resolver can name them beside the stacks of shootdowns.
const FIRST_STACK_NUMBER: u32 = 1 << 30;

/// A kernel stack and its system call: the same addresses may mean something else in another call.
type KernelKey = (Box<[u64]>, i32);

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct TotalsKey {
    pid: u32,
    mechanism: Mechanism,
    part: MechanismPart,
    /// One more than the advice that was given; 0 for none.
    advice: u32,
    stack: u32,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct HolderTotalsKey {
    pid: u32,
    mechanism: Mechanism,
    holder_pid: u32,
    comm: Comm,
    doing: String,
    role: HolderRole,
}

/// The code of the program that a stack comes from.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
struct StackOrigin {
    function: Text,
    file: Text,
    /// The function of an allocator that it called, with its file.
    allocator: Text,
    /// The stack does not go on to where its thread began.
    ends_early: bool,
}

#[derive(Clone, Copy, Default)]
struct AccountCost {
    samples: u64,
    waits: u64,
    blocked_ns: u64,
    longest_ns: u64,
}

impl AccountCost {
    fn add_wait(&mut self, ns: u64) {
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

/// A user stack whose code has not been found yet.
struct UnresolvedStack {
    id: u32,
    pid: u32,
    /// The number of its piece; or 0 where its addresses are known.
    number: i32,
    addresses: Vec<u64>,
    caller: u64,
}

/// The sums of everything that was recorded.
pub(super) struct AccountTotals {
    wait_stacks: MapHandle,
    causes: Rc<RefCell<Causes>>,
    kernel_classes: HashMap<KernelKey, Option<KernelStackClass>>,
    /// The classes of waits, by kernel stack as the map of stacks numbers it, call and flags.
    wait_classes: HashMap<(i32, i32, u32), Option<KernelStackClass>>,
    /// The numbers of kernel stacks, by their functions, one to a line.
    kernel_numbers: HashMap<String, u32>,
    user_numbers: HashMap<(u32, Box<[u64]>, u64), u32>,
    wait_user_numbers: HashMap<(u32, i32, u64), u32>,
    /// The numbers of user stacks by the number of their piece.
    numbers_by_piece: RecentMap<i32, u32>,
    unresolved: Vec<UnresolvedStack>,
    /// The number that was given last, without the bit that all have.
    last_number: u32,
    /// How many of `unresolved`, from the first on, have had the mappings of their processes read.
    maps_seen: usize,
    /// Stacks whose code is found, until somebody takes them to have them named.
    stacks: Vec<TracedStack>,
    /// By the number of each stack that has been named.
    origins: HashMap<u32, StackOrigin>,
    rows: HashMap<TotalsKey, AccountCost>,
    holders: HashMap<HolderTotalsKey, AccountCost>,
    processes: HashMap<u32, ProcessTime>,
    /// Samples and waits one by one, where somebody asked for them.
    singles: Option<Singles>,
}

/// The class of a kernel stack, with its number.
#[derive(Clone, Copy)]
struct KernelStackClass {
    class: StackClass,
    /// Its number, where samples and waits are kept one by one.
    number: u32,
}

/// The functions of a kernel stack.
struct KernelStackNames {
    symbols: Vec<Option<String>>,
    /// The same with the address where there is no name.
    all: Vec<String>,
}

impl AccountTotals {
    pub(super) fn new(wait_stacks: MapHandle, causes: Rc<RefCell<Causes>>) -> Self {
        Self {
            wait_stacks,
            causes,
            kernel_classes: HashMap::new(),
            wait_classes: HashMap::new(),
            kernel_numbers: HashMap::new(),
            user_numbers: HashMap::new(),
            wait_user_numbers: HashMap::new(),
            numbers_by_piece: RecentMap::new(2 * MAX_USER_STACKS),
            unresolved: Vec::new(),
            last_number: 0,
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

    /// Samples and waits since the last call. Those whose stack is not resolved yet are among them, so call it
    /// after [`Self::resolve_stacks`]: later a stack may turn out to have a number already.
    pub(super) fn take_singles(&mut self) -> SinglesTaken {
        self.singles
            .as_mut()
            .map(Singles::take_rows)
            .unwrap_or_default()
    }

    /// Adds a record to the sums; one of a kind that only a newer object would write is left out.
    pub(super) fn take_record(&mut self, bytes: &[u8]) {
        match bytes.first_chunk().copied().map(u32::from_ne_bytes) {
            Some(ACCOUNT_SAMPLE) => self.take_sample(bytes),
            Some(ACCOUNT_WAIT) => {
                if let Some(mut wait) = shared::read_pod::<WaitRecord>(bytes) {
                    wait.tgid = self.distinct_pid(wait.tgid);
                    self.take_wait(&wait);
                }
            }
            Some(ACCOUNT_THREAD) => {
                if let Some(ended) = shared::read_pod::<ThreadRecord>(bytes) {
                    let pid = self.distinct_pid(ended.tgid);
                    thread_clocks::add_thread_time(
                        self.process_time(pid),
                        ended.run_ns,
                        &ended.sums,
                    );
                }
            }
            Some(ACCOUNT_FORK) => {
                if let Some(fork) = shared::read_pod::<ForkRecord>(bytes) {
                    let pid = self.distinct_pid(fork.tgid);
                    self.process_time(pid).forks += 1;
                }
            }
            _ => {}
        }
    }

    /// The process under whose number a record is summed up: 0 where there are too many processes to tell apart.
    fn distinct_pid(&self, pid: u32) -> u32 {
        let known =
            self.processes.len() < MAX_ACCOUNT_PROCESSES || self.processes.contains_key(&pid);
        if known { pid } else { 0 }
    }

    fn process_time(&mut self, pid: u32) -> &mut ProcessTime {
        self.processes.entry(pid).or_insert_with(|| ProcessTime {
            pid,
            ..ProcessTime::default()
        })
    }

    fn named_process_time(&mut self, pid: u32, comm: [u8; 16]) -> &mut ProcessTime {
        let process = self.process_time(pid);
        // A process's name changes with exec, and the last one counts.
        let comm = Text::from(Comm(comm).as_text());
        if process.comm != comm {
            process.comm = comm;
        }
        process
    }

    fn take_sample(&mut self, bytes: &[u8]) {
        let Some(mut head) = shared::read_pod::<AccountSampleHead>(bytes) else {
            return;
        };
        head.tgid = self.distinct_pid(head.tgid);
        let frames = bytes
            .get(size_of::<AccountSampleHead>()..)
            .unwrap_or_default();
        let mut frames = frames
            .chunks_exact(8)
            .filter_map(|b| b.try_into().ok().map(u64::from_ne_bytes));
        let kernel: Box<[u64]> = frames.by_ref().take(head.kernel_frames.into()).collect();
        self.named_process_time(head.tgid, head.comm).samples += 1;
        let Some(KernelStackClass { class, number }) = self.classify_kernel_stack(kernel, head.nr)
        else {
            if let Some(singles) = &mut self.singles {
                singles.keep_sample(&head, None);
            }
            return;
        };
        let stack = if is_of_piece(head.ustack) {
            self.stack_in_pieces(head.tgid, head.ustack)
        } else {
            let user = frames.take(head.user_frames.into()).collect();
            self.user_stack(head.tgid, user, head.caller)
        };
        self.row_cost(head.tgid, class, head.advice, stack).samples += 1;
        if let Some(singles) = &mut self.singles {
            let stacks = RowStacks {
                class,
                kernel_stack: number,
                user_stack: stack,
            };
            singles.keep_sample(&head, Some(stacks));
        }
    }

    fn take_wait(&mut self, wait: &WaitRecord) {
        self.named_process_time(wait.tgid, wait.comm);
        let Some(KernelStackClass { class, number }) = self.classify_wait(wait) else {
            return;
        };
        let stack = self.user_stack_of_wait(wait);
        if let Some(singles) = &mut self.singles {
            let stacks = RowStacks {
                class,
                kernel_stack: number,
                user_stack: stack,
            };
            singles.keep_wait(wait, stacks);
        }
        self.row_cost(wait.tgid, class, wait.advice, stack)
            .add_wait(wait.ns);
        if let Some(role) = singles::holder_role(wait) {
            let key = HolderTotalsKey {
                pid: wait.tgid,
                mechanism: class.mechanism,
                holder_pid: wait.holder.tgid,
                comm: Comm(wait.holder.comm),
                doing: singles::wait_holder_action(wait),
                role,
            };
            if self.holders.len() < MAX_HOLDERS || self.holders.contains_key(&key) {
                self.holders.entry(key).or_default().add_wait(wait.ns);
            }
        }
    }

    /// The cost of the row that a sample or a wait belongs to.
    fn row_cost(
        &mut self,
        pid: u32,
        class: StackClass,
        advice: u32,
        stack: u32,
    ) -> &mut AccountCost {
        let key = TotalsKey {
            pid,
            mechanism: class.mechanism,
            part: class.part,
            // The advice matters only where giving it took the time.
            advice: if class.mechanism == Mechanism::Advise {
                advice
            } else {
                0
            },
            stack,
        };
        self.rows.entry(key).or_default()
    }

    /// A kernel stack's class with its number, where rows are kept one by one.
    fn classified_stack(
        &mut self,
        addresses: &[u64],
        names: &KernelStackNames,
        class: Option<StackClass>,
        most: usize,
    ) -> Option<KernelStackClass> {
        let class = class?;
        let number = if self.singles.is_some() {
            self.number_kernel(addresses, names, most)
        } else {
            UNNUMBERED_STACK
        };
        Some(KernelStackClass { class, number })
    }

    fn kernel_names(&self, addresses: &[u64]) -> Option<KernelStackNames> {
        let symbols = self.causes.borrow().kernel_symbols(addresses).ok()?;
        let all = causes::names_or_addresses(&symbols, addresses);
        Some(KernelStackNames { symbols, all })
    }

    /// The number of a kernel stack, by its functions alone: stacks that differ only in the place within a function are one.
    fn number_kernel(&mut self, addresses: &[u64], names: &KernelStackNames, most: usize) -> u32 {
        let key = names.all.join("\n");
        if let Some(&known) = self.kernel_numbers.get(&key) {
            return known;
        }
        if self.kernel_numbers.len() >= most {
            return UNNUMBERED_STACK;
        }
        let id = self.next_number();
        let stack = kernel_stack(id, addresses, Some(&names.symbols));
        self.stacks.push(stack);
        self.kernel_numbers.insert(key, id);
        id
    }

    fn classify_kernel_stack(&mut self, kernel: Box<[u64]>, nr: i32) -> Option<KernelStackClass> {
        let key = (kernel, nr);
        if let Some(known) = self.kernel_classes.get(&key) {
            return *known;
        }
        let names = self.kernel_names(&key.0);
        let told = names.and_then(|names| {
            let class = classify_stack(&names.all, nr, false, 0);
            self.classified_stack(&key.0, &names, class, MAX_KERNEL_NUMBERS)
        });
        if self.kernel_classes.len() >= MAX_KERNEL_STACKS {
            self.kernel_classes.clear();
        }
        self.kernel_classes.insert(key, told);
        told
    }

    fn classify_wait(&mut self, wait: &WaitRecord) -> Option<KernelStackClass> {
        let key = (wait.kstack, wait.nr, wait.flags);
        if let Some(known) = self.wait_classes.get(&key) {
            return *known;
        }
        let addresses = match bpf_maps::stack_addresses(&self.wait_stacks, wait.kstack) {
            Ok(addresses) if wait.kstack >= 0 => addresses,
            _ => Vec::new(),
        };
        let names = (wait.kstack >= 0).then(|| self.kernel_names(&addresses));
        let told = match names.flatten() {
            Some(names) => {
                let class = classify_stack(&names.all, wait.nr, true, wait.flags);
                self.classified_stack(
                    &addresses,
                    &names,
                    class,
                    MAX_KERNEL_NUMBERS + MORE_WAIT_NUMBERS,
                )
            }
            None => classify_by_call(wait.nr, wait.flags).map(|class| KernelStackClass {
                class,
                number: UNNUMBERED_STACK,
            }),
        };
        if wait.kstack >= 0 {
            self.wait_classes.insert(key, told);
        }
        told
    }

    fn user_stack(&mut self, pid: u32, addresses: Vec<u64>, caller: u64) -> u32 {
        if addresses.is_empty() {
            return UNNUMBERED_STACK;
        }
        let key = (pid, addresses.into_boxed_slice(), caller);
        if let Some(known) = self.user_numbers.get(&key) {
            return *known;
        }
        let Some(id) = self.next_stack() else {
            return UNNUMBERED_STACK;
        };
        self.unresolved.push(UnresolvedStack {
            id,
            pid,
            number: 0,
            addresses: key.1.to_vec(),
            caller,
        });
        self.user_numbers.insert(key, id);
        id
    }

    /// The number of the stack that this piece was taken from.
    fn stack_in_pieces(&mut self, pid: u32, number: i32) -> u32 {
        if let Some(known) = self.numbers_by_piece.get(number) {
            return known;
        }
        let Some(id) = self.next_stack() else {
            return UNNUMBERED_STACK;
        };
        self.unresolved.push(UnresolvedStack {
            id,
            pid,
            number,
            addresses: Vec::new(),
            caller: 0,
        });
        self.numbers_by_piece.insert(number, id);
        id
    }

    fn next_stack(&mut self) -> Option<u32> {
        if self.user_numbers.len() + self.unresolved.len() >= MAX_USER_STACKS {
            return None;
        }
        Some(self.next_number())
    }

    fn next_number(&mut self) -> u32 {
        self.last_number = (self.last_number + 1) % FIRST_STACK_NUMBER;
        FIRST_STACK_NUMBER + self.last_number
    }

    fn user_stack_of_wait(&mut self, wait: &WaitRecord) -> u32 {
        if is_of_piece(wait.ustack) {
            return self.stack_in_pieces(wait.tgid, wait.ustack);
        }
        let key = (wait.tgid, wait.ustack, wait.caller);
        if let Some(known) = self.wait_user_numbers.get(&key) {
            return *known;
        }
        let addresses = match wait.ustack {
            0.. => bpf_maps::stack_addresses(&self.wait_stacks, wait.ustack).unwrap_or_default(),
            _ => Vec::new(),
        };
        let id = self.user_stack(wait.tgid, addresses, wait.caller);
        if self.wait_user_numbers.len() < MAX_USER_STACKS {
            self.wait_user_numbers.insert(key, id);
        }
        id
    }

    /// Reads the mappings of processes with new stacks, again where a stack leads out of the known ones. That can't wait, because the
    /// processes may end. Of a stack that is still to be unwound no address is known, and unwinding looks by itself.
    pub(super) fn read_mappings(&mut self, resolver: &mut StackResolver) {
        for new in &self.unresolved[self.maps_seen.min(self.unresolved.len())..] {
            resolver.cover_addresses(new.pid, &new.addresses);
        }
        self.maps_seen = self.unresolved.len();
    }

    /// Finds the code of new user stacks.
    pub(super) fn resolve_stacks(
        &mut self,
        resolver: &mut StackResolver,
        pieces: Option<&StackPieces>,
    ) {
        let mut same = HashMap::new();
        for new in std::mem::take(&mut self.unresolved) {
            if !is_of_piece(new.number) {
                let stack = resolver.user_stack(new.id, new.pid, new.addresses, new.caller);
                self.stacks.push(stack);
                continue;
            }
            let Some(followed) = pieces.and_then(|p| p.take_followed(new.number)) else {
                continue;
            };
            if followed.single {
                self.numbers_by_piece.remove(&new.number);
            }
            // The same stack may be known already, from another piece or by frame pointers.
            let addresses = followed.addresses.clone().into_boxed_slice();
            let key = (new.pid, addresses, followed.caller);
            if let Some(&known) = self.user_numbers.get(&key) {
                same.insert(new.id, known);
                if !followed.single {
                    self.numbers_by_piece.insert(new.number, known);
                }
                continue;
            }
            self.user_numbers.insert(key, new.id);
            let stack = resolver.followed_stack(new.id, new.pid, followed);
            self.stacks.push(stack);
        }
        self.merge_same_stacks(&same);
        self.maps_seen = 0;
    }

    /// Moves the sums of stacks that turned out to be known ones to the numbers of those.
    fn merge_same_stacks(&mut self, same: &HashMap<u32, u32>) {
        if same.is_empty() {
            return;
        }
        if let Some(singles) = &mut self.singles {
            singles.renumber_stacks(same);
        }
        let theirs = |key: &TotalsKey, _: &mut AccountCost| same.contains_key(&key.stack);
        let moved: Vec<(TotalsKey, AccountCost)> = self.rows.extract_if(theirs).collect();
        for (key, cost) in moved {
            let stack = same.get(&key.stack).copied().unwrap_or(key.stack);
            let key = TotalsKey { stack, ..key };
            self.rows.entry(key).or_default().add(&cost);
        }
    }

    /// The stacks that were resolved since the last call: whoever takes them has them named, and passes them to
    /// [`Self::learn_functions`].
    pub(super) fn take_stacks(&mut self) -> Vec<TracedStack> {
        std::mem::take(&mut self.stacks)
    }

    /// Learns the functions of stacks that have been named.
    pub(super) fn learn_functions(&mut self, stacks: &[TracedStack]) {
        let of_programs = stacks.iter().filter(|s| s.kind == StackKind::User);
        let named = of_programs.map(|s| (s.id, find_origin(s)));
        self.origins.extend(named);
    }

    /// The cost of each stack. CPU time is left to the caller, who knows how much of it a sample stands for.
    pub(super) fn stack_costs(&self) -> Vec<StackCost> {
        let comm = |pid| self.processes.get(&pid).map(|p| p.comm.clone());
        let costs = self.rows.iter().map(|(key, cost)| StackCost {
            pid: key.pid,
            comm: comm(key.pid).unwrap_or_default(),
            mechanism: key.mechanism,
            part: key.part,
            stack: (key.stack != UNNUMBERED_STACK).then_some(key.stack),
            samples: cost.samples,
            cpu_ns: 0,
            waits: cost.waits,
            blocked_ns: cost.blocked_ns,
            longest_ns: cost.longest_ns,
        });
        let mut costs: Vec<_> = costs.collect();
        // A hash map has no order, and output needs one.
        costs.sort_by_key(|c| (c.pid, c.mechanism, c.part, c.stack));
        costs
    }

    /// The account of everything, with the functions of stacks that have been named.
    pub(super) fn whole_account(&self) -> Account {
        let origins = &self.origins;
        let mut account = Account::default();
        // Stacks of one function are one row.
        let mut rows: HashMap<(u32, Mechanism, MechanismPart, u32, StackOrigin), AccountCost> =
            HashMap::new();
        for (key, cost) in &self.rows {
            let origin = origins.get(&key.stack);
            if let Some(origin) = origin {
                account.with_stack += cost.samples + cost.waits;
                if origin.ends_early {
                    account.early_ends += cost.samples + cost.waits;
                }
            }
            let mut origin = origin.cloned().unwrap_or_default();
            // Rows are not told apart by this.
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
                    Some(advice) => holder::advice_name(advice.into()).as_str().into(),
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
                holder_comm: key.comm.as_text().as_ref().into(),
                doing: key.doing.as_str().into(),
                role: key.role,
                waits: cost.waits,
                blocked_ns: cost.blocked_ns,
                longest_ns: cost.longest_ns,
            });
        }
        account.processes = self.processes.values().cloned().collect();
        // A hash map has no order, and output needs one.
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

/// Files whose code works for its caller, who is the one that a reader asks about.
const LIBRARY_FILES: &[&str] = &[
    "libc.so",
    "libc-",
    "ld-linux",
    "ld-musl",
    "libpthread",
    "libstdc++",
    "libffi",
    "libquell",
];

/// Files of allocators. Their caller is named, and the allocator beside it.
const ALLOCATOR_FILES: &[&str] = &[
    "libtcmalloc",
    "libjemalloc",
    "libmimalloc",
    "libhoard",
    "libsnmalloc",
    "librpmalloc",
    "libscudo",
];

/// Functions of the C library that are its allocator's.
const MALLOC_FUNCTIONS: &[&str] = &[
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

/// The function that caused the work, and its file: the innermost one outside of the C library and of allocators, with the
/// allocator's function that it called, if there is one. A stack without such a function is named by its innermost.
fn find_origin(stack: &TracedStack) -> StackOrigin {
    let base = |frame: &StackFrame| {
        let module = frame.module.as_deref().unwrap_or_default();
        module.rsplit('/').next().unwrap_or(module).to_owned()
    };
    let is_known = |frame: &&StackFrame| frame.module.is_some() || frame.symbol.is_some();
    let mut allocator = Text::default();
    let mut first = None;
    for frame in stack.frames.iter().filter(is_known) {
        first = first.or(Some(frame));
        let file = base(frame);
        let symbol = frame.symbol.as_deref().unwrap_or_default();
        let is_library = is_one_of(&file, LIBRARY_FILES);
        if is_one_of(&file, ALLOCATOR_FILES) || is_library && MALLOC_FUNCTIONS.contains(&symbol) {
            // The last one found is the outermost: the function that the program called.
            allocator = match symbol {
                "" => file.as_str().into(),
                _ => format!("{symbol} ({file})").as_str().into(),
            };
        } else if !is_library {
            return StackOrigin {
                function: symbol.into(),
                file: file.as_str().into(),
                allocator,
                ends_early: stack.ends_early().is_some(),
            };
        }
    }
    StackOrigin {
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

    fn frame(symbol: Option<&str>, module: Option<&str>) -> StackFrame {
        StackFrame {
            symbol: symbol.map(str::to_owned),
            module: module.map(str::to_owned),
            ..StackFrame::default()
        }
    }

    /// Check that the C library's functions are passed over where somebody called them, and that a file without names
    /// is named.
    #[test]
    fn origins_are_outside_of_libraries() {
        let of = |frames: &[StackFrame]| {
            let stack = TracedStack {
                frames: frames.to_vec(),
                ..TracedStack::default()
            };
            let origin = find_origin(&stack);
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
            let stack = TracedStack {
                frames: frames.collect(),
                ..TracedStack::default()
            };
            let origin = find_origin(&stack);
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
