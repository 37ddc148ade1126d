//! Keeps the account beside a probe: samples and waits, and the names of the functions that they come from.

use std::path::Path;
use std::time::{Duration, Instant};

use quell_event::Account;
use quell_event::trace::{StackCost, TracedStack};
use quell_host::cpus;
use quell_probe::{
    Accounting, PageWalkCounters, Probe, Scope, SinglesTaken, StackResolver, usual_period_ns,
};

use crate::{hit, little_memory};

/// A program may be over within this time, and its functions have names only while it lives: quell looks more often then.
const EARLY_TIME: Duration = Duration::from_secs(1);
const EARLY_NAP: Duration = Duration::from_millis(5);
/// How long a reader sleeps later, when only the ring must not fill up.
const STEADY_NAP: Duration = Duration::from_millis(100);

/// A CPU that comes is sampled after this time at the latest.
const CPUS_AGE: Duration = Duration::from_millis(100);

/// The account under way.
pub(crate) struct Accountant {
    accounting: Accounting,
    began: Instant,
    /// How long a hit takes on this machine, if that was measured before: it is looked up once, because intervals are many.
    hit_ns: Option<u64>,
    walks: PageWalkCounters,
    looked_at_cpus: Instant,
}

impl Accountant {
    /// Starts to count in the probe's scope. Where that can't be, whatever the reason, quell says so, and counts shootdowns
    /// all the same.
    pub(crate) fn start(probe: &Probe, scope: &Scope) -> Option<Self> {
        if !little_memory::may_account() {
            return None;
        }
        match Accounting::attach(probe, scope, usual_period_ns()) {
            Ok(accounting) => Some(Self {
                accounting,
                began: Instant::now(),
                hit_ns: hit::known_ns(),
                walks: PageWalkCounters::start(scope),
                looked_at_cpus: Instant::now(),
            }),
            Err(err) => {
                say!("quell: no account of the time: {err}");
                None
            }
        }
    }

    /// Keeps samples and waits one by one, for [`Self::take_singles`].
    pub(crate) fn keep_singles(&self) {
        self.accounting.keep_singles();
    }

    /// Samples and waits since the last call, if they are kept.
    pub(crate) fn take_singles(&self) -> SinglesTaken {
        self.accounting.take_singles()
    }

    /// Counts TLB misses of these processes too, and of all that they start from now on.
    pub(crate) fn count_misses_of(&mut self, pids: &[u32]) {
        for &pid in pids {
            self.walks.add_process(pid);
        }
    }

    /// How long the reader of the account may sleep.
    pub(crate) fn nap(&self) -> Duration {
        if self.began.elapsed() < EARLY_TIME {
            EARLY_NAP
        } else {
            STEADY_NAP
        }
    }

    /// Reads the records that came. A program may end at any time, so its maps are read at once; in the beginning there is much else to
    /// do, and its code is found later.
    ///
    /// # Errors
    ///
    /// If it can't be read.
    pub(crate) fn step(&mut self, resolver: &mut StackResolver) -> anyhow::Result<()> {
        self.look_at_cpus();
        // The read is bounded, and the rest comes with the next step.
        self.accounting.read_records()?;
        if self.began.elapsed() < EARLY_TIME {
            self.accounting.read_mappings(resolver);
            self.accounting.follow_stacks(resolver)?;
        } else {
            self.accounting.follow_stacks(resolver)?;
            self.accounting.resolve_stacks(resolver);
        }
        Ok(())
    }

    /// Takes samples also on CPUs that have come meanwhile.
    fn look_at_cpus(&mut self) {
        if self.looked_at_cpus.elapsed() < CPUS_AGE {
            return;
        }
        self.looked_at_cpus = Instant::now();
        if let Ok(online) = cpus::read_online_cpus(Path::new("/")) {
            self.accounting.sample_on(&online);
            self.walks.count_on(&online);
        }
    }

    /// Stops counting; the counts stay.
    ///
    /// # Errors
    ///
    /// If the last records can't be read.
    pub(crate) fn stop(&mut self, resolver: &mut StackResolver) -> anyhow::Result<()> {
        self.accounting.detach()?;
        self.accounting.follow_stacks(resolver)?;
        self.accounting.resolve_stacks(resolver);
        Ok(())
    }

    /// Everything so far, with the functions that have been named before.
    ///
    /// # Errors
    ///
    /// If it can't be read.
    pub(crate) fn account(&self) -> anyhow::Result<Account> {
        let mut account = self.accounting.whole_account()?;
        account.hit_ns = self.hit_ns;
        account.tlb = Some(self.walks.counts());
        Ok(account)
    }

    /// Everything so far, with the names of all functions, which takes a while.
    ///
    /// # Errors
    ///
    /// If it can't be read.
    pub(crate) fn named_account(&self, resolver: &mut StackResolver) -> anyhow::Result<Account> {
        self.accounting.follow_stacks(resolver)?;
        self.accounting.resolve_stacks(resolver);
        let mut stacks = self.accounting.take_stacks();
        resolver.name_stacks(&mut stacks);
        self.accounting.learn_functions(&stacks);
        self.account()
    }

    /// The stacks whose code was found since the last call. Whoever takes them has them named, and passes them to
    /// [`Self::learn`]; until then their functions are not known.
    pub(crate) fn take_stacks(&self) -> Vec<TracedStack> {
        self.accounting.take_stacks()
    }

    /// Learns the functions of stacks that have been named.
    pub(crate) fn learn(&self, stacks: &[TracedStack]) {
        self.accounting.learn_functions(stacks);
    }

    /// The cost of each stack so far. `account` is of the same moment.
    pub(crate) fn stack_costs(&self, account: &Account) -> Vec<StackCost> {
        self.accounting.stack_costs(account)
    }

    /// The whole account in the end. If there were hits and what one takes is not known since boot, that is measured: half a second of two CPUs. Root keeps
    /// it until the next boot, others measure each time.
    ///
    /// # Errors
    ///
    /// If it can't be read.
    pub(crate) fn last_account(
        &self,
        resolver: &mut StackResolver,
        hits: u64,
    ) -> anyhow::Result<Account> {
        let mut account = self.named_account(resolver)?;
        if hits > 0 && account.hit_ns.is_none() {
            account.hit_ns = hit::measured_ns();
        }
        Ok(account)
    }
}
