//! What libquell.so says of itself in the processes that are watched.

use std::cmp::Reverse;
use std::path::Path;
use std::time::{Duration, Instant};

use quell_host::proc::Proc;
use quell_probe::Scope;
use serde_json::{Value, json};

use super::counters::{self, Seen};

/// So many processes are remembered: a loop of forks has no end.
const MOST: usize = 1000;
/// Looking takes at most one part in so many of a CPU; at all processes, whose locks it takes to read what they have
/// mapped, far less.
const COST: u32 = 100;
const COST_OF_ALL: u32 = 1000;

/// One process, as it was when it was last looked at: with a process goes its memory.
pub(crate) struct Process {
    pub(crate) seen: Seen,
    at: Instant,
}

impl Process {
    /// How long ago that was.
    pub(crate) fn age(&self) -> Duration {
        self.at.elapsed()
    }
}

/// All that have the library, and those that had it until they ended; what called it most often comes first.
#[derive(Default)]
pub(crate) struct Library {
    pub(crate) processes: Vec<Process>,
    /// Why one could not be read, with what helps.
    pub(crate) unread: Option<String>,
    looks: u32,
    last: Option<Instant>,
    /// So long it is not looked again, for what the last look cost.
    rest: Duration,
}

impl Library {
    /// How long whoever looks may sleep: soon at first, for commands that are short; and not too long before
    /// the end of one that has it.
    pub(crate) fn nap(&self) -> Duration {
        let grown = Duration::from_millis(10 << self.looks.min(6));
        let most = if self.processes.is_empty() { 500 } else { 100 };
        grown.min(Duration::from_millis(most))
    }

    /// Looks again if it is time to.
    pub(crate) fn look(&mut self, scope: &Scope, roots: &[u32]) {
        if self
            .last
            .is_none_or(|last| last.elapsed() >= self.nap().max(self.rest))
        {
            self.look_now(scope, roots);
        }
    }

    /// Looks at the processes of the scope; of a tree those are its roots and what they started.
    pub(crate) fn look_now(&mut self, scope: &Scope, roots: &[u32]) {
        let began = Instant::now();
        let proc = Proc::new("/");
        // What /proc does not say now it may say the next time.
        let (pids, cost) = match scope {
            Scope::Tree => {
                let tree = |&root| proc.tree(root).unwrap_or_default();
                (roots.iter().flat_map(tree).collect(), COST)
            }
            Scope::All | Scope::Cpus(_) => (proc.pids().unwrap_or_default(), COST_OF_ALL),
        };
        for pid in pids {
            match counters::of(Path::new("/"), pid) {
                Ok(None) => {}
                Ok(Some(seen)) => self.remember(seen, began),
                Err(error) => self.unread = Some(format!("{error:#}")),
            }
        }
        self.processes.sort_by_key(|p| Reverse(p.seen.calls()));
        self.processes.truncate(MOST);
        self.looks += 1;
        self.last = Some(Instant::now());
        self.rest = began.elapsed() * cost;
    }

    pub(crate) fn remember(&mut self, seen: Seen, at: Instant) {
        let known = self.processes.iter_mut().find(|p| p.seen.pid == seen.pid);
        match known {
            Some(known) => *known = Process { seen, at },
            None => self.processes.push(Process { seen, at }),
        }
    }

    /// Adds the key `shim`, if a process has it: its counters, and how old they are in ms.
    ///
    /// # Errors
    ///
    /// What serialising says.
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
