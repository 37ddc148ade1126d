//! A program's time as advice needs it: whole stacks, where the account has functions only.

use std::collections::{BTreeSet, HashMap};

use quell_event::trace::{self, StackCost, TracedProcess, TracedStack};
use quell_event::{Account, HolderRow, Mechanism, Text};
use serde::{Deserialize, Serialize};

/// The caller lies within this many frames in all stacks that were met, so no more are kept.
const MAX_FRAMES: usize = 64;

/// The name under which quell itself holds locks while it reads the mappings of a process.
const OWN_COMM: &str = "quell";

/// The time of the whole trace, by stacks. Times are ns.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Scene {
    /// CPU time of all that was watched.
    pub cpu_ns: u64,
    /// The time that passed.
    pub wall_ns: u64,
    /// The cost of each stack.
    pub costs: Vec<SeenCost>,
    /// The cost of each kind of advice to madvise(2), by the function that gave it: a part of `costs`.
    pub given: Vec<SeenCost>,
    /// Processes that held locks while others waited for them.
    pub holders: Vec<HolderRow>,
    /// Processes that forked.
    pub forks: Vec<SeenForks>,
    /// Files that are mapped and hold no code.
    pub files: Vec<MappedFile>,
}

/// The cost of one stack of a process by one mechanism.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeenCost {
    /// The process.
    pub pid: u32,
    /// Its name.
    pub comm: Text,
    /// The work that the kernel did.
    pub mechanism: Mechanism,
    /// The advice, as `MADV_FREE`; empty but in [`Scene::given`], and in costs that come from an account without stacks.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub advice: Text,
    /// CPU time.
    #[serde(default)]
    pub cpu_ns: u64,
    /// Time asleep.
    #[serde(default)]
    pub blocked_ns: u64,
    /// From the innermost frame outwards.
    pub stack: Vec<SeenFrame>,
}

/// One function on a stack; empty texts where something is not known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct SeenFrame {
    /// The function.
    pub function: Text,
    /// The last part of its file's path.
    pub file: Text,
}

/// How often a process forked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeenForks {
    /// The process.
    pub pid: u32,
    /// How often.
    pub forks: u64,
}

/// A file that a process has mapped.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct MappedFile {
    /// The process.
    pub pid: u32,
    /// The file.
    pub path: Text,
}

/// Files that these processes have mapped, without those that hold code of theirs.
pub fn mapped_files<'a>(
    processes: impl Iterator<Item = &'a TracedProcess>,
) -> BTreeSet<MappedFile> {
    let mut files = BTreeSet::new();
    for process in processes {
        let code = process.modules.iter().filter(|m| m.perms.contains('x'));
        let code: BTreeSet<&str> = code.map(|m| m.path.as_str()).collect();
        let data = process.modules.iter().map(|m| m.path.as_str());
        let data = data.filter(|path| path.starts_with('/') && !code.contains(path));
        files.extend(data.map(|path| MappedFile {
            pid: process.pid,
            path: path.into(),
        }));
    }
    files
}

/// The last part of a path.
fn last_path_part(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

impl From<String> for SeenFrame {
    /// `function (file)`; a `?` stands for a function that is not known.
    fn from(text: String) -> Self {
        let (function, file) = match text.rsplit_once(" (") {
            Some((function, file)) => (function, file.strip_suffix(')').unwrap_or(file)),
            None => (text.as_str(), ""),
        };
        Self {
            function: if function == "?" { "" } else { function }.into(),
            file: file.into(),
        }
    }
}

impl From<SeenFrame> for String {
    fn from(frame: SeenFrame) -> Self {
        let function = match frame.function.as_str() {
            "" => "?",
            function => function,
        };
        match frame.file.as_str() {
            "" => function.to_owned(),
            file => format!("{function} ({file})"),
        }
    }
}

impl From<&trace::StackFrame> for SeenFrame {
    fn from(frame: &trace::StackFrame) -> Self {
        Self {
            function: frame.symbol.as_deref().unwrap_or_default().into(),
            file: last_path_part(frame.module.as_deref().unwrap_or_default()).into(),
        }
    }
}

/// Files whose functions any program may call: the caller stands further out on the stack.
const OF_LIBC: &[&str] = &["libc.so", "libc-", "ld-linux", "ld-musl", "libpthread"];

impl SeenFrame {
    fn is_libc(&self) -> bool {
        OF_LIBC.iter().any(|name| self.file.starts_with(name))
    }

    /// Whether it is this function. Whole names are compared, without C++'s arguments, a version, or a suffix of the compiler.
    #[must_use]
    pub fn is_function(&self, function: &str) -> bool {
        let rest = self.function.strip_prefix(function);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['(', '@', '.', '<']))
    }
}

impl SeenCost {
    /// Whether one of these functions is on the stack.
    #[must_use]
    pub fn calls_any(&self, functions: &[&str]) -> bool {
        let is_one =
            |frame: &SeenFrame| functions.iter().any(|function| frame.is_function(function));
        self.stack.iter().any(is_one)
    }

    /// Whether a function on the stack has this text in its name: a namespace, or the prefix of a library.
    #[must_use]
    pub fn is_within(&self, part: &str) -> bool {
        self.stack.iter().any(|frame| frame.function.contains(part))
    }

    /// Whether a function of a file whose name begins so is on the stack.
    #[must_use]
    pub fn is_in(&self, file: &str) -> bool {
        self.stack.iter().any(|frame| frame.file.starts_with(file))
    }

    /// Whether it is one of these mechanisms.
    #[must_use]
    pub fn is_of(&self, mechanisms: &[Mechanism]) -> bool {
        mechanisms.contains(&self.mechanism)
    }

    /// The innermost known frame outside of the C library: it asked the kernel for the work. Where all known frames are the C
    /// library's it is the innermost of these; none where no frame is known.
    #[must_use]
    pub fn asking_frame(&self) -> Option<&SeenFrame> {
        let known = |frame: &&SeenFrame| !frame.function.is_empty() || !frame.file.is_empty();
        let mut frames = self.stack.iter().filter(known);
        frames.clone().find(|f| !f.is_libc()).or(frames.next())
    }
}

impl Scene {
    /// The scene of an account, with the stacks of the trace. Where the trace has none (`costs` is empty) each stack is what a
    /// row of the account names: the allocator's function, if there was one, and the program's. `stack` finds a stack by its
    /// number, and `files` are those that processes have mapped.
    #[must_use]
    pub fn new<'a>(
        account: &Account,
        wall_ns: u64,
        costs: &[StackCost],
        stack: &dyn Fn(u32) -> Option<&'a TracedStack>,
        files: BTreeSet<MappedFile>,
    ) -> Self {
        let forked = account.processes.iter().filter(|p| p.forks > 0);
        let mut scene = Self {
            cpu_ns: account.run_ns(),
            wall_ns,
            given: by_functions(account),
            holders: holders_of_account(account),
            forks: forked
                .map(|p| SeenForks {
                    pid: p.pid,
                    forks: p.forks,
                })
                .collect(),
            files: files.into_iter().collect(),
            ..Self::default()
        };
        scene.costs = match costs {
            [] => scene.given.clone(),
            costs => by_stacks(costs, stack),
        };
        scene.given.retain(|cost| !cost.advice.is_empty());
        scene
    }

    /// Whether this CPU time is a share of the program's that is worth advice.
    #[must_use]
    pub fn is_much(&self, cpu_ns: u64) -> bool {
        super::is_enough_time(cpu_ns, self.cpu_ns)
    }

    /// The costs of these mechanisms that are such.
    pub fn costs_of<'a>(
        &'a self,
        mechanisms: &'a [Mechanism],
        is_such: impl Fn(&SeenCost) -> bool + 'a,
    ) -> impl Iterator<Item = &'a SeenCost> {
        let costs = self.costs.iter();
        costs.filter(move |cost| cost.is_of(mechanisms) && is_such(cost))
    }

    /// The CPU time that a fork of this process takes on average; none where it never forked.
    #[must_use]
    pub fn each_fork_ns(&self, pid: u32) -> Option<u64> {
        let forks = self.forks.iter().find(|f| f.pid == pid)?.forks;
        let costs = self.costs.iter().filter(|c| c.pid == pid);
        let of_forks = costs.filter(|c| c.mechanism == Mechanism::Fork);
        of_forks.map(|c| c.cpu_ns).sum::<u64>().checked_div(forks)
    }

    /// Whether a process has mapped a file whose path is such.
    #[must_use]
    pub fn has_mapped(&self, pid: u32, is_such: impl Fn(&str) -> bool) -> bool {
        let mut files = self.files.iter().filter(|f| f.pid == pid);
        files.any(|f| is_such(&f.path))
    }
}

/// The rows of an account, each with a stack of the two functions at most that the row names, the innermost first.
fn by_functions(account: &Account) -> Vec<SeenCost> {
    let processes = account.processes.iter();
    let comms: HashMap<u32, &Text> = processes.map(|p| (p.pid, &p.comm)).collect();
    let cost = |row: &quell_event::AccountRow| SeenCost {
        pid: row.pid,
        comm: comms.get(&row.pid).copied().cloned().unwrap_or_default(),
        mechanism: row.mechanism,
        advice: row.advice.clone(),
        cpu_ns: account.cpu_ns_of(row.samples),
        blocked_ns: row.blocked_ns,
        stack: [
            SeenFrame::from(String::from(row.allocator.clone())),
            SeenFrame {
                function: row.function.clone(),
                file: row.file.clone(),
            },
        ]
        .into_iter()
        .filter(|frame| *frame != SeenFrame::default())
        .collect(),
    };
    account.rows.iter().map(cost).collect()
}

/// The costs by process, mechanism and stack, the dearest first. A cost whose stack is not known has an empty one.
fn by_stacks<'a>(
    costs: &[StackCost],
    stack: &dyn Fn(u32) -> Option<&'a TracedStack>,
) -> Vec<SeenCost> {
    // Parts of a mechanism don't matter here, so their costs are added up.
    let mut whole: HashMap<(u32, Mechanism, Option<u32>), SeenCost> = HashMap::new();
    for cost in costs {
        let key = (cost.pid, cost.mechanism, cost.stack);
        let sum = whole.entry(key).or_insert_with(|| SeenCost {
            pid: cost.pid,
            comm: cost.comm.clone(),
            mechanism: cost.mechanism,
            advice: Text::default(),
            cpu_ns: 0,
            blocked_ns: 0,
            stack: cost
                .stack
                .and_then(stack)
                .map_or_else(Vec::new, frames_of_stack),
        });
        sum.cpu_ns += cost.cpu_ns;
        sum.blocked_ns += cost.blocked_ns;
    }
    let mut whole: Vec<_> = whole.into_iter().collect();
    // A hash map has no order, so the result is sorted.
    whole.sort_by_key(|(key, cost)| (std::cmp::Reverse(cost.cpu_ns + cost.blocked_ns), *key));
    whole.into_iter().map(|(_, cost)| cost).collect()
}

fn frames_of_stack(stack: &TracedStack) -> Vec<SeenFrame> {
    stack
        .frames
        .iter()
        .take(MAX_FRAMES)
        .map(SeenFrame::from)
        .collect()
}

fn holders_of_account(account: &Account) -> Vec<HolderRow> {
    let rows = account.holders.iter();
    rows.filter(|row| row.holder_comm.as_str() != OWN_COMM)
        .cloned()
        .collect()
}
