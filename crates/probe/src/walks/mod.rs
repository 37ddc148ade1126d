//! TLB misses of what is watched, by the processor's own counters: how many there are, and how long page walks take. In user
//! mode only: what the kernel's own misses cost is in the samples of what it does.

mod counters;
mod events;

use std::collections::HashSet;
use std::io::Error;
use std::path::Path;

use quell_event::account::{Counted, TlbCounts};
use quell_host::cpus::{self, Model};
use quell_host::proc::Proc;

use crate::loader::Scope;
use crate::perf_event::On;
use counters::{Counters, Kernel};
use events::{CYCLES, Event, MISSES};

/// Which figure a counter is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Figure {
    Cycles,
    /// For loads, for stores, for code.
    Walks(usize),
    Misses(usize),
}

/// Counters of the processor, lent while it lives.
pub struct Walks {
    lent: Lent<Kernel>,
    scope: Scope,
}

impl Walks {
    /// Begins to count on the CPUs of a scope; of one that is made of processes nothing is counted before
    /// [`Self::add_process`].
    #[must_use]
    pub fn start(scope: &Scope) -> Self {
        let root = Path::new("/");
        let mut lent = Lent::new(Kernel, Machine::read(root));
        match scope {
            Scope::Tree => lent.can_count(On::Thread(std::process::id())),
            Scope::All => lent.add_cpus(&cpus::online(root).unwrap_or_default()),
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
        let threads = Proc::new("/").threads(pid).unwrap_or_default();
        let threads: Vec<u32> = threads.into_iter().map(|(tid, _)| tid).collect();
        self.lent.add_threads(&threads);
    }

    /// What was counted so far, or why nothing is.
    #[must_use]
    pub fn counts(&self) -> TlbCounts {
        self.lent.counts()
    }
}

/// What decides what can be counted, and how it is said that nothing can.
struct Machine {
    model: Model,
    is_virtual: bool,
    /// Cores of two kinds have other events each.
    is_hybrid: bool,
    /// kernel.perf_event_paranoid, where it can be read.
    paranoid: Option<i32>,
    /// Threads whose counters may be open at once: each takes as many files as there are events.
    most_threads: usize,
}

impl Machine {
    fn read(root: &Path) -> Self {
        let paranoid = std::fs::read_to_string(root.join("proc/sys/kernel/perf_event_paranoid"));
        let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let files = files.map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX));
        Self {
            model: cpus::model(root),
            is_virtual: cpus::is_virtual(root),
            is_hybrid: root.join("sys/bus/event_source/devices/cpu_atom").exists(),
            paranoid: paranoid.ok().and_then(|text| text.trim().parse().ok()),
            // the rest is for maps, files with symbols, and traces
            most_threads: files / 4 / EVENTS,
        }
    }

    /// Why a counter was refused.
    fn refusal(&self, err: &Error) -> String {
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

/// Cycles, walks, misses.
const EVENTS: usize = 7;

/// A counter that was lent.
struct Loan<T> {
    on: On,
    figure: Figure,
    counter: T,
}

/// Counters that were lent.
struct Lent<C: Counters> {
    counters: C,
    lent: Vec<Loan<C::Counter>>,
    /// What they count on: nothing is counted twice.
    on: HashSet<On>,
    /// What was counted on CPUs that have gone.
    gone: TlbCounts,
    events: Vec<(Figure, Event)>,
    machine: Machine,
    why: Option<String>,
}

impl<C: Counters> Lent<C> {
    fn new(counters: C, machine: Machine) -> Self {
        let by_kind = |events: [Event; 3], figure: fn(usize) -> Figure| {
            [0, 1, 2].map(|kind: usize| (figure(kind), events[kind]))
        };
        let mut all = vec![(Figure::Cycles, CYCLES)];
        let walks = events::walk_cycles(&machine.model);
        all.extend(
            walks
                .into_iter()
                .flat_map(|events| by_kind(events, Figure::Walks)),
        );
        all.extend(by_kind(MISSES, Figure::Misses));
        let why = if machine.is_hybrid {
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
            machine,
            why,
        }
    }

    /// Nothing is counted any more, which is better than a part that is taken for all.
    fn give_up(&mut self, why: String) {
        self.lent.clear();
        self.events.clear();
        self.gone = TlbCounts::default();
        self.why = Some(why);
    }

    /// Whether cycles can be counted there at all, so that it is known why not before anything is counted.
    fn can_count(&mut self, on: On) {
        if self.events.is_empty() {
            return;
        }
        if let Err(err) = self.counters.lend(CYCLES, on) {
            self.give_up(self.machine.refusal(&err));
        }
    }

    fn add_cpus(&mut self, cpus: &[u32]) {
        for &cpu in cpus {
            self.add(On::Cpu(cpu));
        }
    }

    /// A counter ends with its CPU, and one that comes back needs another.
    fn follow_cpus(&mut self, online: &[u32]) {
        let has_gone = |on: &On| matches!(on, On::Cpu(cpu) if !online.contains(cpu));
        if self.on.iter().any(has_gone) {
            let lent = std::mem::take(&mut self.lent);
            let (gone, stay): (Vec<_>, Vec<_>) = lent.into_iter().partition(|l| has_gone(&l.on));
            self.lent = stay;
            self.on.retain(|on| !has_gone(on));
            let mut sum = std::mem::take(&mut self.gone);
            self.sum(&gone, &mut sum);
            self.gone = sum;
        }
        self.add_cpus(online);
    }

    fn add_threads(&mut self, threads: &[u32]) {
        if self.on.len() + threads.len() > self.machine.most_threads {
            self.give_up("so many threads take more files than quell may have open".to_owned());
        }
        for &tid in threads {
            self.add(On::Thread(tid));
        }
    }

    fn add(&mut self, on: On) {
        if self.events.is_empty() || !self.on.insert(on) {
            return;
        }
        for (figure, event) in self.events.clone() {
            match self.counters.lend(event, on) {
                Ok(counter) => self.lent.push(Loan {
                    on,
                    figure,
                    counter,
                }),
                // a thread that has ended meanwhile, or a CPU that went
                Err(err) if matches!(err.raw_os_error(), Some(libc::ESRCH)) => return,
                // some processors have no event for stores, which are among the loads there
                Err(_) if figure != Figure::Cycles => {}
                Err(err) => return self.give_up(self.machine.refusal(&err)),
            }
        }
    }

    fn counts(&self) -> TlbCounts {
        let mut counts = self.gone.clone();
        self.sum(&self.lent, &mut counts);
        let was_never_on = counts.cycles.running_ns == 0;
        counts.why = match &self.why {
            _ if was_never_on && counts.cycles.enabled_ns > 0 => "others had all of the counters",
            None if was_never_on => "nothing that was watched had a counter",
            why => why.as_deref().unwrap_or_default(),
        }
        .into();
        counts
    }

    fn sum(&self, lent: &[Loan<C::Counter>], counts: &mut TlbCounts) {
        for loan in lent {
            // what can't be read was not counted
            let counted = self.counters.read(&loan.counter).unwrap_or_default();
            match loan.figure {
                Figure::Cycles => counts.cycles.add(counted),
                Figure::Walks(kind) => add(&mut counts.walk_cycles, kind, counted),
                Figure::Misses(kind) => add(&mut counts.misses, kind, counted),
            }
        }
    }
}

fn add(kinds: &mut [Counted; 3], kind: usize, counted: Counted) {
    if let Some(sum) = kinds.get_mut(kind) {
        sum.add(counted);
    }
}

#[cfg(test)]
mod tests;
