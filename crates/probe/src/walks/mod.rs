//! TLB misses of the watched processes or CPUs, by the processor's own counters: how many there are, and how long page walks
//! take. Only user mode counts, because the kernel's misses are in the samples of the kernel's work.

mod counters;
mod events;

use std::collections::HashSet;
use std::io::Error;
use std::path::Path;

use quell_event::account::{CounterReading, TlbCounts};
use quell_host::cpus::{self, ProcessorModel};
use quell_host::proc::Proc;

use crate::options::Scope;
use crate::perf_event::EventTarget;
use counters::{CounterLender, KernelCounters};
use events::{CYCLES_EVENT, CounterEvent, MISS_EVENTS};

/// The figure that a counter belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CounterFigure {
    Cycles,
    /// For loads (0), for stores (1), for code (2).
    Walks(usize),
    Misses(usize),
}

/// Counters of the processor, lent while it lives.
pub struct PageWalkCounters {
    lent: LentCounters<KernelCounters>,
    scope: Scope,
}

impl PageWalkCounters {
    /// Begins to count on the CPUs of a scope. In a scope of processes nothing is counted before
    /// [`Self::add_process`].
    #[must_use]
    pub fn start(scope: &Scope) -> Self {
        let root = Path::new("/");
        let mut lent = LentCounters::new(KernelCounters, CounterSupport::read(root));
        match scope {
            Scope::Tree => lent.check_cycles(EventTarget::Thread(std::process::id())),
            Scope::All => lent.add_cpus(&cpus::read_online_cpus(root).unwrap_or_default()),
            Scope::Cpus(list) => lent.add_cpus(list),
        }
        Self {
            lent,
            scope: scope.clone(),
        }
    }

    /// Counts on these CPUs, which are online now, where the scope is the machine: some may have come, and some gone.
    pub fn count_on(&mut self, online: &[u32]) {
        if self.scope == Scope::All {
            self.lent.follow_cpus(online);
        }
    }

    /// Counts a process, and whatever it starts from now on, where the scope is made of processes.
    pub fn add_process(&mut self, pid: u32) {
        if self.scope != Scope::Tree {
            return;
        }
        let threads = Proc::new("/").thread_stats(pid).unwrap_or_default();
        let threads: Vec<u32> = threads.into_iter().map(|(tid, _)| tid).collect();
        self.lent.add_threads(&threads);
    }

    /// The counts so far, or why there are none.
    #[must_use]
    pub fn counts(&self) -> TlbCounts {
        self.lent.counts()
    }
}

/// The properties of the machine that decide which events can be counted, and how a refusal is explained.
struct CounterSupport {
    model: ProcessorModel,
    is_virtual: bool,
    /// Cores of two kinds have different events.
    is_hybrid: bool,
    /// kernel.perf_event_paranoid, where it can be read.
    paranoid: Option<i32>,
    /// Threads whose counters may be open at once: each takes as many files as there are events.
    most_threads: usize,
}

impl CounterSupport {
    fn read(root: &Path) -> Self {
        let paranoid = std::fs::read_to_string(root.join("proc/sys/kernel/perf_event_paranoid"));
        let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let files = files.map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX));
        Self {
            model: cpus::read_processor_model(root),
            is_virtual: cpus::is_virtual(root),
            is_hybrid: root.join("sys/bus/event_source/devices/cpu_atom").exists(),
            paranoid: paranoid.ok().and_then(|text| text.trim().parse().ok()),
            // The other files are for maps, for files with symbols, and for traces.
            most_threads: files / 4 / EVENT_COUNT,
        }
    }

    /// Why a counter was refused.
    fn explain_refusal(&self, err: &Error) -> String {
        match err.raw_os_error() {
            Some(libc::EACCES | libc::EPERM) => match self.paranoid {
                Some(level) => {
                    format!("kernel.perf_event_paranoid is {level}: root may, or CAP_PERFMON")
                }
                None => "it takes root, or CAP_PERFMON".to_owned(),
            },
            Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV | libc::EINVAL)
                if self.is_virtual =>
            {
                "this virtual machine has no such counters".to_owned()
            }
            Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV | libc::EINVAL) => {
                "the kernel knows no such counters of this processor".to_owned()
            }
            _ => format!("the kernel refuses a counter: {err}"),
        }
    }
}

/// How many events are counted: cycles, three of walks and three of misses.
const EVENT_COUNT: usize = 7;

/// A counter that was lent for one figure.
struct CounterLoan<T> {
    on: EventTarget,
    figure: CounterFigure,
    counter: T,
}

/// All counters that were lent.
struct LentCounters<C: CounterLender> {
    counters: C,
    lent: Vec<CounterLoan<C::Counter>>,
    /// The CPUs and threads that they count on, so that none is counted twice.
    on: HashSet<EventTarget>,
    /// The counts of CPUs that have gone.
    gone: TlbCounts,
    events: Vec<(CounterFigure, CounterEvent)>,
    support: CounterSupport,
    why: Option<String>,
}

impl<C: CounterLender> LentCounters<C> {
    fn new(counters: C, support: CounterSupport) -> Self {
        let by_kind = |events: [CounterEvent; 3], figure: fn(usize) -> CounterFigure| {
            [0, 1, 2].map(|kind: usize| (figure(kind), events[kind]))
        };
        let mut all = vec![(CounterFigure::Cycles, CYCLES_EVENT)];
        let walks = events::walk_cycles(&support.model);
        all.extend(
            walks
                .into_iter()
                .flat_map(|events| by_kind(events, CounterFigure::Walks)),
        );
        all.extend(by_kind(MISS_EVENTS, CounterFigure::Misses));
        let why = if support.is_hybrid {
            all.clear();
            Some("this processor has cores of two kinds".to_owned())
        } else if walks.is_none() {
            Some("quell knows no event of this processor that tells how long walks take".to_owned())
        } else {
            None
        };
        Self {
            counters,
            lent: Vec::new(),
            on: HashSet::new(),
            gone: TlbCounts::default(),
            events: all,
            support,
            why,
        }
    }

    /// Stops all counting, because a part of the counts could be mistaken for all of them.
    fn give_up(&mut self, why: String) {
        self.lent.clear();
        self.events.clear();
        self.gone = TlbCounts::default();
        self.why = Some(why);
    }

    /// Tries to count cycles there, so that the reason is known early if nothing can be counted.
    fn check_cycles(&mut self, on: EventTarget) {
        if self.events.is_empty() {
            return;
        }
        if let Err(err) = self.counters.lend(CYCLES_EVENT, on) {
            self.give_up(self.support.explain_refusal(&err));
        }
    }

    fn add_cpus(&mut self, cpus: &[u32]) {
        for &cpu in cpus {
            self.add_target(EventTarget::Cpu(cpu));
        }
    }

    /// Follows CPUs that come and go. A counter ends with its CPU, and a CPU that comes back needs another.
    fn follow_cpus(&mut self, online: &[u32]) {
        let has_gone =
            |on: &EventTarget| matches!(on, EventTarget::Cpu(cpu) if !online.contains(cpu));
        if self.on.iter().any(has_gone) {
            let lent = std::mem::take(&mut self.lent);
            let (gone, stay): (Vec<_>, Vec<_>) = lent.into_iter().partition(|l| has_gone(&l.on));
            self.lent = stay;
            self.on.retain(|on| !has_gone(on));
            let mut sum = std::mem::take(&mut self.gone);
            self.add_loans(&gone, &mut sum);
            self.gone = sum;
        }
        self.add_cpus(online);
    }

    fn add_threads(&mut self, threads: &[u32]) {
        if self.on.len() + threads.len() > self.support.most_threads {
            self.give_up("so many threads take more files than quell may have open".to_owned());
        }
        for &tid in threads {
            self.add_target(EventTarget::Thread(tid));
        }
    }

    fn add_target(&mut self, on: EventTarget) {
        if self.events.is_empty() || !self.on.insert(on) {
            return;
        }
        for (figure, event) in self.events.clone() {
            match self.counters.lend(event, on) {
                Ok(counter) => self.lent.push(CounterLoan {
                    on,
                    figure,
                    counter,
                }),
                // The thread has ended meanwhile, or the CPU has gone.
                Err(err) if matches!(err.raw_os_error(), Some(libc::ESRCH)) => return,
                // Some processors have no event for stores, and count them among the loads.
                Err(_) if figure != CounterFigure::Cycles => {}
                Err(err) => return self.give_up(self.support.explain_refusal(&err)),
            }
        }
    }

    fn counts(&self) -> TlbCounts {
        let mut counts = self.gone.clone();
        self.add_loans(&self.lent, &mut counts);
        let was_never_on = counts.cycles.running_ns == 0;
        counts.why = match &self.why {
            _ if was_never_on && counts.cycles.enabled_ns > 0 => "others had all of the counters",
            None if was_never_on => "nothing that was watched had a counter",
            why => why.as_deref().unwrap_or_default(),
        }
        .into();
        counts
    }

    fn add_loans(&self, lent: &[CounterLoan<C::Counter>], counts: &mut TlbCounts) {
        for loan in lent {
            // A counter that can't be read has counted nothing.
            let counted = self.counters.read(&loan.counter).unwrap_or_default();
            match loan.figure {
                CounterFigure::Cycles => counts.cycles.add_reading(counted),
                CounterFigure::Walks(kind) => {
                    add_to_kind(&mut counts.walk_cycles, kind, counted);
                }
                CounterFigure::Misses(kind) => add_to_kind(&mut counts.misses, kind, counted),
            }
        }
    }
}

fn add_to_kind(kinds: &mut [CounterReading; 3], kind: usize, counted: CounterReading) {
    if let Some(sum) = kinds.get_mut(kind) {
        sum.add_reading(counted);
    }
}

#[cfg(test)]
mod tests;
