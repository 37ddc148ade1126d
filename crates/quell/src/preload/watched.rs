//! The counters of libquell.so in all watched processes.

use std::cmp::Reverse;
use std::path::Path;
use std::time::{Duration, Instant};

use quell_host::proc::Proc;
use quell_probe::Scope;
use serde_json::{Value, json};

use super::counters::{self, ShimCounters};

/// The number of remembered processes has a bound, because a loop of forks has no end.
const MAX_PROCESSES: usize = 1000;
/// Reading takes at most this fraction of a CPU, one hundredth: the pause is so many times as long as the reading before took. A
/// reading of all processes takes a far smaller one, because it holds the locks of their mappings.
const COST_DIVISOR: u32 = 100;
const COST_DIVISOR_OF_ALL: u32 = 1000;

/// One process with its counters as they were last read: its memory goes when it ends.
pub(crate) struct ShimProcess {
    pub(crate) seen: ShimCounters,
    at: Instant,
}

impl ShimProcess {
    /// The age of its counters.
    pub(crate) fn age(&self) -> Duration {
        self.at.elapsed()
    }
}

/// All processes that have the library, or had it until they ended; the one with the most calls comes first.
#[derive(Default)]
pub(crate) struct Library {
    pub(crate) processes: Vec<ShimProcess>,
    /// The reason why one could not be read, with a remedy.
    pub(crate) unread: Option<String>,
    looks: u32,
    last: Option<Instant>,
    /// The pause before the next reading, by the cost of the last one.
    rest: Duration,
}

impl Library {
    /// The time that a caller may sleep before the next reading: short at first, because commands may be short, and never long
    /// while a process has the library, because its counters go when it ends.
    pub(crate) fn nap(&self) -> Duration {
        let grown = Duration::from_millis(10 << self.looks.min(6));
        let most = if self.processes.is_empty() { 500 } else { 100 };
        grown.min(Duration::from_millis(most))
    }

    /// Reads the counters again if the pause is over.
    pub(crate) fn look(&mut self, scope: &Scope, roots: &[u32]) {
        if self
            .last
            .is_none_or(|last| last.elapsed() >= self.nap().max(self.rest))
        {
            self.look_now(scope, roots);
        }
    }

    /// Reads the counters of the processes in the scope; in a tree these are its roots and all that they started.
    pub(crate) fn look_now(&mut self, scope: &Scope, roots: &[u32]) {
        let began = Instant::now();
        let proc = Proc::new("/");
        // A reading of /proc that fails now may work the next time.
        let (pids, cost) = match scope {
            Scope::Tree => {
                let tree = |&root| proc.process_tree(root).unwrap_or_default();
                (roots.iter().flat_map(tree).collect(), COST_DIVISOR)
            }
            Scope::All | Scope::Cpus(_) => {
                (proc.list_pids().unwrap_or_default(), COST_DIVISOR_OF_ALL)
            }
        };
        for pid in pids {
            match counters::read_counters(Path::new("/"), pid) {
                Ok(None) => {}
                Ok(Some(seen)) => self.remember(seen, began),
                Err(error) => self.unread = Some(format!("{error:#}")),
            }
        }
        self.processes
            .sort_by_key(|p| Reverse(p.seen.calls_by_program()));
        self.processes.truncate(MAX_PROCESSES);
        self.looks += 1;
        self.last = Some(Instant::now());
        self.rest = began.elapsed() * cost;
    }

    /// Keeps the latest counters of a process, also of a new process that has the number of an old one.
    pub(crate) fn remember(&mut self, seen: ShimCounters, at: Instant) {
        let known = self.processes.iter_mut().find(|p| p.seen.pid == seen.pid);
        match known {
            Some(known) => *known = ShimProcess { seen, at },
            None => self.processes.push(ShimProcess { seen, at }),
        }
    }

    /// Adds the key `shim`, if a process has it: its counters, and how old they are in ms.
    ///
    /// # Errors
    ///
    /// Serialising fails.
    pub(crate) fn add_to(&self, summary: &mut Value) -> serde_json::Result<()> {
        let mut all = Vec::new();
        for process in &self.processes {
            let mut one = serde_json::to_value(&process.seen)?;
            one["age_ms"] = json!(u64::try_from(process.age().as_millis()).unwrap_or(u64::MAX));
            all.push(one);
        }
        if let Some(summary) = summary.as_object_mut()
            && !all.is_empty()
        {
            summary.insert("shim".into(), all.into());
        }
        Ok(())
    }
}
