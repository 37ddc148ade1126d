//! The code and the mappings that a trace knows of.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use quell_event::trace::{Frame, Module, Process, Stack};

use super::aggregate::Aggregate;

/// Functions that only pass a request on to the kernel. The names of libc's wrappers, with and
/// without their underscores, in glibc and musl.
const WRAPPERS: &[&str] = &[
    "madvise",
    "munmap",
    "mprotect",
    "mremap",
    "mmap",
    "mmap64",
    "brk",
    "sbrk",
    "posix_madvise",
    "process_madvise",
    "syscall",
    "msync",
    "pkey_mprotect",
    "shmdt",
    "ftruncate",
    "ftruncate64",
    "fallocate",
    "fallocate64",
];

/// Stacks by the number that rows have for them, with names where those can still be found.
pub(crate) fn named(stacks: impl IntoIterator<Item = Stack>) -> HashMap<i32, Stack> {
    let number = |s: Stack| (s.id.cast_signed(), s);
    let mut stacks: HashMap<i32, Stack> = stacks.into_iter().map(number).collect();
    // a recording that was cut short has not come to the names
    let mut nameless: Vec<Stack> = stacks
        .values()
        .filter(|s| s.frames.iter().all(|f| f.symbol.is_none()))
        .cloned()
        .collect();
    quell_probe::name_frames(&mut nameless);
    stacks.extend(nameless.into_iter().map(number));
    stacks
}

/// Processes and stacks by their numbers.
pub(crate) struct Code {
    processes: HashMap<u32, Process>,
    stacks: HashMap<i32, Stack>,
}

impl Code {
    pub(crate) fn new(
        processes: HashMap<u32, Process>,
        stacks: impl IntoIterator<Item = Stack>,
    ) -> Self {
        Self {
            processes,
            stacks: named(stacks),
        }
    }

    /// Adds what was seen since, and names its code.
    pub(crate) fn learn(&mut self, processes: Vec<Process>, mut stacks: Vec<Stack>) {
        quell_probe::name_frames(&mut stacks);
        self.stacks
            .extend(stacks.into_iter().map(|s| (s.id.cast_signed(), s)));
        self.processes
            .extend(processes.into_iter().map(|p| (p.pid, p)));
    }

    pub(crate) fn stack(&self, id: i32) -> Option<&Stack> {
        self.stacks.get(&id)
    }

    pub(crate) fn process(&self, pid: u32) -> Option<&Process> {
        self.processes.get(&pid)
    }

    /// The mapping with a name that lies at an address of a process.
    pub(crate) fn mapping(&self, pid: u32, address: u64) -> Option<&Module> {
        self.processes.get(&pid)?.module_at(address)
    }

    /// The frame that called for a shootdown: the innermost that is no mere wrapper.
    pub(crate) fn caller(&self, stack: i32) -> Option<&Frame> {
        let frames = &self.stack(stack)?.frames;
        let wrapper = |f: &Frame| {
            let name = f.symbol.as_deref().unwrap_or_default();
            let bare = name
                .split('@')
                .next()
                .unwrap_or(name)
                .trim_start_matches('_');
            WRAPPERS.contains(&bare.strip_prefix("libc_").unwrap_or(bare))
        };
        frames
            .iter()
            .find(|f| f.module.is_some() && !wrapper(f))
            .or_else(|| frames.first())
    }

    /// Files that culprits ran code from, without the kernel's own names in brackets.
    pub(crate) fn modules(&self) -> Vec<PathBuf> {
        let files: BTreeSet<&str> = self
            .processes
            .values()
            .flat_map(|p| &p.modules)
            .filter(|m| m.perms.contains('x') && m.path.starts_with('/'))
            .map(|m| m.path.as_str())
            .collect();
        files.into_iter().map(PathBuf::from).collect()
    }

    /// What the reader should know of the stacks.
    pub(crate) fn notes(&self, seen: &Aggregate) -> Vec<String> {
        let (mut short, mut all, mut gone) = (0u64, 0u64, 0u64);
        let mut ends: BTreeMap<&str, u64> = BTreeMap::new();
        for (id, n) in seen.user_stacks() {
            all += n;
            let stack = self.stack(id);
            if stack.is_some_and(|s| s.gone) {
                gone += n;
                continue;
            }
            let Some(stack) = stack.filter(|s| s.frames.len() <= 2) else {
                continue;
            };
            short += n;
            let last = stack.frames.last().and_then(|f| f.module.as_deref());
            *ends.entry(last.map_or("unknown code", base)).or_default() += n;
        }
        let mut notes = Vec::new();
        if gone > 0 {
            notes.push(format!(
                "{} of {} user stacks have no names: their process ended before its memory map could be \
                 read.",
                crate::show::units::count(gone),
                crate::show::units::count(all),
            ));
        }
        // Of several the largest, by name where they are equal.
        let end = ends.into_iter().max_by_key(|&(name, n)| (n, Reverse(name)));
        let Some((end, _)) = end.filter(|_| short * 2 >= all) else {
            return notes;
        };
        notes.push(format!(
            "{} of {} user stacks end after one or two frames, most of them in {end}, which keeps no \
             frame pointers: callers beyond it are not seen. Code of one's own keeps them if built with \
             -fno-omit-frame-pointer, or Rust's -C force-frame-pointers=yes.",
            crate::show::units::count(short),
            crate::show::units::count(all),
        ));
        notes
    }
}

/// The last part of a path.
pub(crate) fn base(path: &str) -> &str {
    Path::new(path)
        .file_name()
        .and_then(|n| n.to_str())
        .unwrap_or(path)
}
