//! The account: samples of CPU time and sleeps of the threads in scope, each by what memory management did.

mod clocks;
mod holder;
mod layout;
mod seen;
mod singles;
mod sort;
mod ticks;
mod watch;

use std::cell::RefCell;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use libbpf_rs::{Link, MapCore as _, MapFlags, MapHandle, Object, ObjectBuilder};
use quell_event::Account;
use quell_event::trace::{Stack, StackCost};

use crate::error::{Error, Result};
use crate::kernel::{self, Symbols};
use crate::layout as shared;
use crate::loader::{self, Probe, Scope};
use crate::resolve::{Resolver, monotonic_ns};
use crate::ring::Ring;
use crate::unwind::Pieces;
use layout::{AccountConfig, AccountHealth};
use seen::Seen;
pub use singles::SinglesTaken;
pub use watch::Watch;

const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/account.bpf.o"));

/// Records that are read in one go.
const AT_ONCE: usize = 1 << 15;

/// Room for records, bytes: a second of 64 busy CPUs with deep stacks.
const RING_BYTES: u32 = 16 << 20;

/// Samples a second of a CPU: in step with nothing that a program does by itself.
const RATE: u64 = 997;
/// And in a virtual machine. There the timer's interrupt alone is dear: at 997 a second a thread that only computes lost
/// 1.7 % of its time by quell on one such machine, and 1.8 to 2.3 % by perf, though the program that takes a sample took
/// 0.8 µs (docs/account.md).
const VIRTUAL_RATE: u64 = 499;

/// How far apart samples of a CPU are on this machine, ns.
#[must_use]
pub fn usual_period_ns() -> u64 {
    let rate = if quell_host::cpus::is_virtual(Path::new("/")) {
        VIRTUAL_RATE
    } else {
        RATE
    };
    1_000_000_000 / rate
}

/// In the order in which they are attached. Without contention, before Linux 5.19, holders are not known.
const PROGRAMS: &[(&str, &str)] = &[
    ("account_switch", "sched_switch"),
    ("account_contention_end", "contention_end"),
    ("account_contention_begin", "contention_begin"),
    ("account_fork", "sched_process_fork"),
];

/// The account under way, from [`Accounting::attach`] until [`Accounting::detach`] or drop.
pub struct Accounting {
    // the links go first, then the events
    links: Vec<Link>,
    ticks: ticks::Ticks,
    ring: Ring,
    pieces: Option<Pieces>,
    seen: Rc<RefCell<Seen>>,
    clocks: MapHandle,
    healths: MapHandle,
    period_ns: u64,
    ended_ns: Option<u64>,
    sees_holders: bool,
    object: Object,
}

/// Since Linux 5.18 sched_switch passes on the state in which a thread leaves its CPU, and before it has to be read from
/// the thread. Its tracepoint has no number of its own: the type of the function that a probe of it is has the argument.
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
    // the first is the probe's own data
    proto.is_none_or(|proto| proto.iter().count() >= 5)
}

impl Accounting {
    /// Loads the programs beside a probe and starts to count the same processes, or CPUs. Samples of a CPU are
    /// `period_ns` apart.
    ///
    /// # Errors
    ///
    /// [`Error::Missing`] says what this kernel or this user lacks, and what helps.
    pub fn attach(probe: &Probe, scope: &Scope, period_ns: u64) -> Result<Self> {
        let (scope_tgids, scope_cpus) = probe.scope_maps();
        let symbols = Symbols::read();
        let began_ns = monotonic_ns();
        let unwinds = probe.unwinds();
        let mut open = ObjectBuilder::default()
            .open_memory(OBJECT)
            .map_err(Error::load("open the eBPF object of the account"))?;
        let config = AccountConfig {
            began_ns,
            scope: scope.number(),
            self_tgid: std::process::id(),
            has_prev_state: has_prev_state().into(),
            has_clocks: 1,
            has_user_stacks: 1,
            unwinds: unwinds.into(),
        };
        let ring_bytes = loader::ring_bytes(RING_BYTES, quell_host::memory::available());
        for mut map in open.maps_mut() {
            let size = Pieces::size(&mut map, unwinds);
            if size.map_err(Error::load("size a map of the account"))? {
                continue;
            }
            match map.name().to_string_lossy().as_ref() {
                ".rodata.account_config" => map.set_initial_value(shared::bytes(&config)),
                "account_records" => map.set_max_entries(ring_bytes),
                "scope_tgids" => map.reuse_fd(scope_tgids.as_fd()),
                "scope_cpus" => map.reuse_fd(scope_cpus.as_fd()),
                _ => Ok(()),
            }
            .map_err(Error::load("configure the eBPF programs of the account"))?;
        }
        let there = |tracepoint: &str| symbols.has_tracepoint(tracepoint);
        for mut program in open.progs_mut() {
            let section = program.section().to_string_lossy().into_owned();
            if let Some(tracepoint) = section.strip_prefix("raw_tp/") {
                program.set_autoload(there(tracepoint));
            }
        }
        let mut object = open
            .load()
            .map_err(Error::judge("load the eBPF programs of the account"))?;
        let seen = Rc::new(RefCell::new(Seen::new(
            loader::map(&object, "wait_stacks")?,
            probe.causes(),
        )));
        let theirs = Rc::clone(&seen);
        let ring = Ring::new(&loader::map(&object, "account_records")?, move |bytes| {
            // never borrowed while the ring is read
            if let Ok(mut seen) = theirs.try_borrow_mut() {
                seen.take(bytes);
            }
        })?;
        let pieces = unwinds.then(|| Pieces::new(&object)).transpose()?;
        let mut links = Vec::new();
        for (name, tracepoint) in PROGRAMS.iter().filter(|(_, t)| there(t)) {
            let found = object.progs_mut().find(|p| p.name() == *name);
            let program = found.ok_or_else(|| loader::missing("program", name))?;
            let link = program
                .attach()
                .map_err(|err| kernel::explain_attach(tracepoint, &err))?;
            links.push(link);
        }
        let ticks = ticks::Ticks::start(&mut object, "account_sample", period_ns)?;
        Ok(Self {
            sees_holders: links.len() == PROGRAMS.len(),
            links,
            ticks,
            ring,
            pieces,
            seen,
            clocks: loader::map(&object, "clocks")?,
            healths: loader::map(&object, "account_healths")?,
            period_ns,
            ended_ns: None,
            object,
        })
    }

    /// Samples on these CPUs, which are online now: some may have come, and some gone.
    pub fn sample_on(&mut self, online: &[u32]) {
        self.ticks.follow(&mut self.object, online);
    }

    /// Reads what came, up to a bound; true if there may be more. To be called ten times a second or more.
    ///
    /// # Errors
    ///
    /// If the ring can't be read.
    pub fn drain(&self) -> Result<bool> {
        self.ring.read(AT_ONCE)
    }

    /// Has the maps read of the processes that new user stacks are of, unless they were within `age`: that can't wait.
    pub fn see(&self, resolver: &mut Resolver, age: Duration) {
        self.seen.borrow_mut().see(resolver, age);
    }

    /// Follows the stacks of which pieces came since the last call.
    ///
    /// # Errors
    ///
    /// If their ring can't be read.
    pub fn follow(&self, resolver: &mut Resolver) -> Result<()> {
        match &self.pieces {
            Some(pieces) => resolver.follow(pieces),
            None => Ok(()),
        }
    }

    /// Finds the code of user stacks that came since the last call and have been followed. Files are opened for it.
    pub fn resolve(&self, resolver: &mut Resolver) {
        let pieces = self.pieces.as_ref();
        self.seen.borrow_mut().resolve(resolver, pieces);
    }

    /// The stacks that have been resolved since the last call. Whoever takes them has them named, which takes a while, and
    /// tells by [`Self::learn`].
    #[must_use]
    pub fn take_stacks(&self) -> Vec<Stack> {
        self.seen.borrow_mut().take_stacks()
    }

    /// Learns the functions of stacks that have been named.
    pub fn learn(&self, stacks: &[Stack]) {
        self.seen.borrow_mut().learn(stacks);
    }

    /// Keeps samples and waits one by one from now on, for [`Self::take_singles`]. To be called before anything is read.
    pub fn keep_singles(&self) {
        self.seen.borrow_mut().keep_singles();
    }

    /// Samples and waits since the last call, if they are kept. To be called when stacks have been resolved.
    #[must_use]
    pub fn take_singles(&self) -> SinglesTaken {
        self.seen.borrow_mut().take_singles()
    }

    /// What each stack of the program cost so far. `account` is of the same time.
    #[must_use]
    pub fn stack_costs(&self, account: &Account) -> Vec<StackCost> {
        let mut costs = self.seen.borrow().costs();
        for cost in &mut costs {
            cost.cpu_ns = account.cpu_ns_of(cost.samples);
        }
        costs
    }

    /// Stops; what was counted stays.
    ///
    /// # Errors
    ///
    /// If what is left can't be read.
    pub fn detach(&mut self) -> Result<()> {
        if self.ended_ns.is_some() {
            return Ok(());
        }
        self.ticks.stop();
        self.links.clear();
        self.ended_ns = Some(monotonic_ns());
        while self.drain()? {}
        Ok(())
    }

    /// Everything so far, with functions as far as they have been named.
    ///
    /// # Errors
    ///
    /// If a map can't be read.
    pub fn account(&self) -> Result<Account> {
        let now = self.ended_ns.unwrap_or_else(monotonic_ns);
        let mut account = self.seen.borrow().account();
        account.period_ns = self.period_ns;
        account.sees_holders = self.sees_holders;
        account.wrong_stacks = self.pieces.as_ref().map_or(0, Pieces::wrong);
        clocks::add_living(&mut account, &self.clocks, now)?;
        let healths = self
            .healths
            .lookup_percpu(&shared::ONLY.to_ne_bytes(), MapFlags::ANY)
            .map_err(Error::load("read what the account lost"))?;
        for cpu in healths.unwrap_or_default() {
            let health: AccountHealth = shared::read(&cpu).unwrap_or_default();
            account.lost_samples += health.lost_samples;
            account.lost_waits += health.lost_waits;
            account.lost_wait_ns += health.lost_wait_ns;
            account.lost_threads += health.lost_threads;
            account.lost_stacks += health.lost_stacks;
        }
        Ok(account)
    }
}
