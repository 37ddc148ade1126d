//! The sums of the account's records, as they come: memory grows with the number of different stacks and processes, not with
//! time.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use libbpf_rs::MapHandle;
use quell_event::trace::{StackCost, StackFrame, StackKind, TracedStack};
use quell_event::{
    Account, AccountRow, Comm, HolderRole, HolderRow, Mechanism, MechanismPart, Text,
};

use super::layout::{
    ACCOUNT_FORK, ACCOUNT_SAMPLE, ACCOUNT_THREAD, ACCOUNT_WAIT, AccountSampleHead, ForkRecord,
    ThreadRecord, WaitRecord,
};
use super::mechanisms::{StackClass, classify_by_call, classify_stack};
use super::process_times::ProcessTimes;
use super::singles::{self, RowStacks, Singles, SinglesTaken, UNNUMBERED_STACK};
use super::stack_numbers::{NewStackAddresses, NewUserStack, StackNumbers};
use super::{holder, thread_clocks};
use crate::bpf_maps;
use crate::causes::{self, Causes};
use crate::layout as shared;
use crate::resolver::{StackResolver, kernel_stack};
use crate::unwind::{StackPieces, is_of_piece};

/// The most kernel stacks whose class is remembered; then all are looked up anew.
const MAX_CACHED_KERNEL_CLASSES: usize = 1 << 13;
/// The most kernel stacks that are told apart where samples and waits are kept one by one; those that come later have no
/// number. Each takes some three kilobytes of a trace.
const MAX_NUMBERED_KERNEL_STACKS: usize = 1 << 12;
/// So many more stacks of waits are told apart. Waits have few stacks, and samples are to leave room for them.
const MORE_WAIT_NUMBERS: usize = 1 << 11;
/// The most holders of locks that are told apart.
const MAX_HOLDERS: usize = 1 << 12;

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

/// The sums of everything that was recorded.
pub(super) struct AccountTotals {
    wait_stacks: MapHandle,
    causes: Rc<RefCell<Causes>>,
    kernel_classes: HashMap<KernelKey, Option<KernelStackClass>>,
    /// The classes of waits, by kernel stack as the map of stacks numbers it, call and flags.
    wait_classes: HashMap<(i32, i32, u32), Option<KernelStackClass>>,
    numbers: StackNumbers,
    /// Stacks whose code is found, until somebody takes them to have them named.
    stacks: Vec<TracedStack>,
    /// By the number of each stack that has been named.
    origins: HashMap<u32, StackOrigin>,
    rows: HashMap<TotalsKey, AccountCost>,
    holders: HashMap<HolderTotalsKey, AccountCost>,
    processes: ProcessTimes,
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
            numbers: StackNumbers::new(),
            stacks: Vec::new(),
            origins: HashMap::new(),
            rows: HashMap::new(),
            holders: HashMap::new(),
            processes: ProcessTimes::default(),
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
    pub(super) fn add_record(&mut self, bytes: &[u8]) {
        match bytes.first_chunk().copied().map(u32::from_ne_bytes) {
            Some(ACCOUNT_SAMPLE) => self.add_sample_record(bytes),
            Some(ACCOUNT_WAIT) => {
                if let Some(mut wait) = shared::read_pod::<WaitRecord>(bytes) {
                    wait.tgid = self.processes.distinct_pid(wait.tgid);
                    self.add_wait_record(&wait);
                }
            }
            Some(ACCOUNT_THREAD) => {
                if let Some(ended) = shared::read_pod::<ThreadRecord>(bytes) {
                    let pid = self.processes.distinct_pid(ended.tgid);
                    let process = self.processes.row_mut(pid);
                    thread_clocks::add_thread_time(process, ended.run_ns, &ended.sums);
                }
            }
            Some(ACCOUNT_FORK) => {
                if let Some(fork) = shared::read_pod::<ForkRecord>(bytes) {
                    let pid = self.processes.distinct_pid(fork.tgid);
                    self.processes.row_mut(pid).forks += 1;
                }
            }
            _ => {}
        }
    }

    fn add_sample_record(&mut self, bytes: &[u8]) {
        let Some(mut head) = shared::read_pod::<AccountSampleHead>(bytes) else {
            return;
        };
        head.tgid = self.processes.distinct_pid(head.tgid);
        let frames = bytes
            .get(size_of::<AccountSampleHead>()..)
            .unwrap_or_default();
        let mut frames = shared::words_of(frames);
        let kernel: Box<[u64]> = frames.by_ref().take(head.kernel_frames.into()).collect();
        let process = self.processes.named_row_mut(head.tgid, Comm(head.comm));
        process.samples += 1;
        let Some(KernelStackClass { class, number }) = self.classify_kernel_stack(kernel, head.nr)
        else {
            if let Some(singles) = &mut self.singles {
                singles.keep_sample(&head, None);
            }
            return;
        };
        let stack = if is_of_piece(head.ustack) {
            self.numbers.number_piece_stack(head.tgid, head.ustack)
        } else {
            let user = frames.take(head.user_frames.into()).collect();
            self.numbers.number_user_stack(head.tgid, user, head.caller)
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

    fn add_wait_record(&mut self, wait: &WaitRecord) {
        self.processes.named_row_mut(wait.tgid, Comm(wait.comm));
        let Some(KernelStackClass { class, number }) = self.classify_wait(wait) else {
            return;
        };
        let stack = self.numbers.number_wait_stack(wait, |ustack| {
            bpf_maps::stack_addresses(&self.wait_stacks, ustack).unwrap_or_default()
        });
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
        if let Some(known) = self.numbers.known_kernel_stack(&key) {
            return known;
        }
        let Some(id) = self.numbers.number_kernel_stack(key, most) else {
            return UNNUMBERED_STACK;
        };
        let stack = kernel_stack(id, addresses, Some(&names.symbols));
        self.stacks.push(stack);
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
            self.classified_stack(&key.0, &names, class, MAX_NUMBERED_KERNEL_STACKS)
        });
        if self.kernel_classes.len() >= MAX_CACHED_KERNEL_CLASSES {
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
        let addresses = (wait.kstack >= 0)
            .then(|| bpf_maps::stack_addresses(&self.wait_stacks, wait.kstack).ok())
            .flatten();
        let Some((addresses, names)) = addresses.and_then(|addresses| {
            let names = self.kernel_names(&addresses)?;
            Some((addresses, names))
        }) else {
            // This is not remembered: the stack may be read when the next wait has it.
            return classify_by_call(wait.nr, wait.flags).map(|class| KernelStackClass {
                class,
                number: UNNUMBERED_STACK,
            });
        };
        let class = classify_stack(&names.all, wait.nr, true, wait.flags);
        let told = self.classified_stack(
            &addresses,
            &names,
            class,
            MAX_NUMBERED_KERNEL_STACKS + MORE_WAIT_NUMBERS,
        );
        self.wait_classes.insert(key, told);
        told
    }

    /// Reads the mappings of processes with new stacks, again where a stack leads out of the known ones. That can't wait, because the
    /// processes may end.
    pub(super) fn read_mappings(&mut self, resolver: &mut StackResolver) {
        self.numbers.see_new_stacks(|pid, addresses| {
            resolver.cover_addresses(pid, addresses);
            resolver.look_at_data(pid);
        });
    }

    /// Finds the code of new user stacks.
    pub(super) fn resolve_stacks(
        &mut self,
        resolver: &mut StackResolver,
        pieces: Option<&StackPieces>,
    ) {
        let new = self
            .numbers
            .take_new_stacks(|piece| pieces.and_then(|pieces| pieces.take_followed(piece)));
        let pids: BTreeSet<u32> = new.stacks.iter().map(|stack| stack.pid).collect();
        for NewUserStack { id, pid, addresses } in new.stacks {
            self.stacks.push(match addresses {
                NewStackAddresses::Walked(walked) => {
                    resolver.user_stack(id, pid, walked.addresses, walked.caller)
                }
                NewStackAddresses::Followed(followed) => resolver.followed_stack(id, pid, followed),
            });
        }
        for pid in pids {
            resolver.look_at_data(pid);
        }
        self.renumber_stacks(&new.renumbered);
    }

    /// Moves the sums of user stacks that were numbered too early to the numbers that they have.
    fn renumber_stacks(&mut self, renumbered: &HashMap<u32, u32>) {
        if renumbered.is_empty() {
            return;
        }
        if let Some(singles) = &mut self.singles {
            singles.renumber_stacks(renumbered);
        }
        let theirs = |key: &TotalsKey, _: &mut AccountCost| renumbered.contains_key(&key.stack);
        let moved: Vec<(TotalsKey, AccountCost)> = self.rows.extract_if(theirs).collect();
        for (key, cost) in moved {
            let stack = renumbered.get(&key.stack).copied().unwrap_or(key.stack);
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
        let costs = self.rows.iter().map(|(key, cost)| StackCost {
            pid: key.pid,
            comm: self.processes.name_of(key.pid),
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
        account.processes = self.processes.sorted_rows();
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
