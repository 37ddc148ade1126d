//! The account: samples of CPU time and sleeps of the threads in scope, each by the mechanism of memory management that took
//! it.

mod clock_events;
mod holder;
mod layout;
mod mechanisms;
mod process_times;
mod singles;
mod stack_numbers;
mod system_call;
mod thread_clocks;
mod totals;
mod watch;

use std::cell::RefCell;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::rc::Rc;

use libbpf_rs::{Link, MapHandle, Object, ObjectBuilder};
use quell_event::Account;
use quell_event::trace::{StackCost, TracedStack};

use crate::bpf_maps;
use crate::error::{Error, Result};
use crate::kernel::{self, KernelSymbols};
use crate::layout as shared;
use crate::loader::Probe;
use crate::options::Scope;
use crate::record_ring::RecordRing;
use crate::resolver::{StackResolver, monotonic_ns};
use crate::unwind::StackPieces;
use clock_events::ClockEvents;
use layout::{AccountConfig, AccountHealth};
pub use singles::SinglesTaken;
use totals::AccountTotals;
pub use watch::MachineWatch;

const ACCOUNT_OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/account.bpf.o"));

/// The most records that one call reads, so that a busy ring does not keep its reader from everything else.
const MAX_ACCOUNT_RECORDS_AT_ONCE: usize = 1 << 15;

/// The ring has room for the records of 64 busy CPUs with deep stacks in one second.
const ACCOUNT_RING_BYTES: u32 = 16 << 20;

/// How many samples a second each CPU takes. The number is prime, so that the samples are in step with nothing that a program
/// does by itself.
const SAMPLES_PER_SECOND: u64 = 997;
/// A virtual machine takes fewer. There the timer's interrupt alone is dear: at 997 a second a thread that only computes lost
/// 1.7 % of its time by quell on one such machine, and 1.8 to 2.3 % by perf, though the program that takes a sample took
/// 0.8 µs (docs/account.md).
const VIRTUAL_SAMPLES_PER_SECOND: u64 = 499;

/// How far apart samples of a CPU are on this machine, ns.
#[must_use]
pub fn usual_period_ns() -> u64 {
    let rate = if quell_host::cpus::is_virtual(Path::new("/")) {
        VIRTUAL_SAMPLES_PER_SECOND
    } else {
        SAMPLES_PER_SECOND
    };
    1_000_000_000 / rate
}

/// The programs and their tracepoints, in the order in which they are attached. The tracepoints of contention exist since
/// Linux 5.19; without them the holders of locks are not known.
const ACCOUNT_PROGRAMS: &[(&str, &str)] = &[
    ("account_switch", "sched_switch"),
    ("account_contention_end", "contention_end"),
    ("account_contention_begin", "contention_begin"),
    ("account_fork", "sched_process_fork"),
];

/// The account under way, from [`Accounting::attach`] until [`Accounting::detach`] or drop.
pub struct Accounting {
    // Fields are dropped in this order: the links go first, then the events.
    links: Vec<Link>,
    clock_events: ClockEvents,
    ring: RecordRing,
    pieces: Option<StackPieces>,
    totals: Rc<RefCell<AccountTotals>>,
    /// The clock of each thread that lives, by its number; a thread beyond MAX_THREAD_CLOCKS (`bpf/account.h`) has none, and is counted
    /// as lost.
    clocks: MapHandle,
    healths: MapHandle,
    period_ns: u64,
    ended_ns: Option<u64>,
    sees_holders: bool,
    object: Object,
}

/// Whether the tracepoint sched_switch passes on the state in which a thread leaves its CPU, as it does since Linux 5.18;
/// before, the state has to be read from the thread. The tracepoint does not tell its arguments itself, but the type of the
/// functions that attach to it does. Where it can't be read, the kernel is taken for a new one.
fn has_prev_state() -> bool {
    use libbpf_rs::ReferencesType as _;
    use libbpf_rs::btf::{Btf, types};
    let Ok(btf) = Btf::from_vmlinux() else {
        return true;
    };
    let Some(handler) = btf.type_by_name::<types::Typedef<'_>>("btf_trace_sched_switch") else {
        return true;
    };
    let function = handler.next_type();
    let proto = function.and_then(|pointer| types::Ptr::try_from(pointer).ok());
    let proto = proto.map(|pointer| pointer.referenced_type());
    let proto = proto.and_then(|proto| types::FuncProto::try_from(proto).ok());
    // The first argument is the probe's own data.
    proto.is_none_or(|proto| proto.iter().count() >= 5)
}

impl Accounting {
    /// Loads the programs beside a probe and starts to count the same processes, or CPUs: `scope` is the probe's own. Samples of a CPU are
    /// `period_ns` apart; CPUs that come later are sampled by [`Self::sample_on`].
    ///
    /// # Errors
    ///
    /// [`Error::Missing`] says what this kernel or this user lacks, and what helps; [`Error::Load`] what libbpf or the kernel refused.
    pub fn attach(probe: &Probe, scope: &Scope, period_ns: u64) -> Result<Self> {
        let (scope_tgids, scope_cpus) = probe.scope_maps();
        let symbols = KernelSymbols::read();
        let began_ns = monotonic_ns();
        let unwinds = probe.unwinds_stacks();
        let mut open = ObjectBuilder::default()
            .open_memory(ACCOUNT_OBJECT)
            .map_err(Error::load("open the eBPF object of the account"))?;
        let config = AccountConfig {
            began_ns,
            scope: scope.scope_kind(),
            self_tgid: std::process::id(),
            has_prev_state: has_prev_state().into(),
            unwinds: unwinds.into(),
        };
        let ring_bytes =
            bpf_maps::fitting_ring_bytes(ACCOUNT_RING_BYTES, quell_host::memory::available_bytes());
        for mut map in open.maps_mut() {
            let size = StackPieces::size_map(&mut map, unwinds);
            if size.map_err(Error::load("size a map of the account"))? {
                continue;
            }
            match map.name().to_string_lossy().as_ref() {
                ".rodata.account_config" => map.set_initial_value(shared::bytes_of(&config)),
                "account_records" => map.set_max_entries(ring_bytes),
                "scope_tgids" => map.reuse_fd(scope_tgids.as_fd()),
                "scope_cpus" => map.reuse_fd(scope_cpus.as_fd()),
                _ => Ok(()),
            }
            .map_err(Error::load("configure the eBPF programs of the account"))?;
        }
        let is_there = |tracepoint: &str| symbols.has_tracepoint(tracepoint);
        for mut program in open.progs_mut() {
            let section = program.section().to_string_lossy().into_owned();
            if let Some(tracepoint) = section.strip_prefix("raw_tp/") {
                program.set_autoload(is_there(tracepoint));
            }
        }
        let mut object = open.load().map_err(Error::from_program_load(
            "load the eBPF programs of the account",
        ))?;
        let totals = Rc::new(RefCell::new(AccountTotals::new(
            bpf_maps::open_map(&object, "wait_stacks")?,
            Rc::clone(&probe.causes),
        )));
        let records = bpf_maps::open_map(&object, "account_records")?;
        let ring = RecordRing::with_receiver(&records, &totals, AccountTotals::add_record)?;
        let pieces = unwinds.then(|| StackPieces::new(&object)).transpose()?;
        let mut links = Vec::new();
        for (name, tracepoint) in ACCOUNT_PROGRAMS.iter().filter(|(_, t)| is_there(t)) {
            let found = object.progs_mut().find(|p| p.name() == *name);
            let program = found.ok_or_else(|| bpf_maps::missing_from_object("program", name))?;
            let link = program
                .attach()
                .map_err(|err| kernel::explain_attach(tracepoint, &err))?;
            links.push(link);
        }
        let clock_events = ClockEvents::start(&mut object, "account_sample", period_ns)?;
        Ok(Self {
            sees_holders: links.len() == ACCOUNT_PROGRAMS.len(),
            links,
            clock_events,
            ring,
            pieces,
            totals,
            clocks: bpf_maps::open_map(&object, "clocks")?,
            healths: bpf_maps::open_map(&object, "account_healths")?,
            period_ns,
            ended_ns: None,
            object,
        })
    }

    /// Takes samples on these CPUs, which are online now: some may have come, and some gone, since the last call.
    pub fn sample_on(&mut self, online: &[u32]) {
        self.clock_events.follow_cpus(&mut self.object, online);
    }

    /// Reads the records that came, up to a bound; true if there may be more. Call it ten times a second or more, or the ring
    /// fills up.
    ///
    /// # Errors
    ///
    /// If the ring can't be read.
    pub fn read_records(&self) -> Result<bool> {
        self.ring.read_records(MAX_ACCOUNT_RECORDS_AT_ONCE)
    }

    /// Reads the mappings of the processes that new user stacks are from, unless the known ones cover them. That can't wait,
    /// because a process takes its mappings with it when it ends.
    pub fn read_mappings(&self, resolver: &mut StackResolver) {
        self.totals.borrow_mut().read_mappings(resolver);
    }

    /// Unwinds the stacks whose pieces came since the last call.
    ///
    /// # Errors
    ///
    /// If their ring can't be read.
    pub fn follow_stacks(&self, resolver: &mut StackResolver) -> Result<()> {
        match &self.pieces {
            Some(pieces) => resolver.follow_pieces(pieces),
            None => Ok(()),
        }
    }

    /// Finds the code of user stacks that came since the last call and have been unwound, for which it opens their files.
    pub fn resolve_stacks(&self, resolver: &mut StackResolver) {
        let pieces = self.pieces.as_ref();
        self.totals.borrow_mut().resolve_stacks(resolver, pieces);
    }

    /// The stacks that have been resolved since the last call. Whoever takes them has them named, which takes a while, and
    /// passes them to [`Self::learn_functions`].
    #[must_use]
    pub fn take_stacks(&self) -> Vec<TracedStack> {
        self.totals.borrow_mut().take_stacks()
    }

    /// Learns the functions of stacks that have been named.
    pub fn learn_functions(&self, stacks: &[TracedStack]) {
        self.totals.borrow_mut().learn_functions(stacks);
    }

    /// Keeps samples and waits one by one from now on, for [`Self::take_singles`]. Call it before anything is read.
    pub fn keep_singles(&self) {
        self.totals.borrow_mut().keep_singles();
    }

    /// Samples and waits since the last call, if they are kept. Call it when stacks have been resolved: later a stack may turn
    /// out to have a number already.
    #[must_use]
    pub fn take_singles(&self) -> SinglesTaken {
        self.totals.borrow_mut().take_singles()
    }

    /// How much time each stack of the program has cost so far. `account` is of the same moment.
    #[must_use]
    pub fn stack_costs(&self, account: &Account) -> Vec<StackCost> {
        let mut costs = self.totals.borrow().stack_costs();
        for cost in &mut costs {
            cost.cpu_ns = account.cpu_ns_of(cost.samples);
        }
        costs
    }

    /// Stops counting; the counts stay.
    ///
    /// # Errors
    ///
    /// If the last records can't be read.
    pub fn detach(&mut self) -> Result<()> {
        if self.ended_ns.is_some() {
            return Ok(());
        }
        self.clock_events.stop();
        self.links.clear();
        self.ended_ns = Some(monotonic_ns());
        while self.read_records()? {}
        Ok(())
    }

    /// The whole account so far, with the functions of stacks that have been named.
    ///
    /// # Errors
    ///
    /// If a map can't be read.
    pub fn whole_account(&self) -> Result<Account> {
        let now = self.ended_ns.unwrap_or_else(monotonic_ns);
        let mut account = self.totals.borrow().whole_account();
        account.period_ns = self.period_ns;
        account.sees_holders = self.sees_holders;
        account.wrong_stacks = self.pieces.as_ref().map_or(0, StackPieces::wrong_count);
        thread_clocks::add_living_threads(&mut account, &self.clocks, now)?;
        let only_key = shared::ONLY_KEY.to_ne_bytes();
        let doing = "read what the account lost";
        let healths: Vec<AccountHealth> =
            bpf_maps::read_per_cpu_values(&self.healths, &only_key, doing)?;
        for health in healths {
            account.lost_samples += health.lost_samples;
            account.lost_waits += health.lost_waits;
            account.lost_wait_ns += health.lost_wait_ns;
            account.lost_threads += health.lost_threads;
            account.lost_stacks += health.lost_stacks;
        }
        Ok(account)
    }
}
