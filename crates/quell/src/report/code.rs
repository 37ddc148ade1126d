//! The code and the mappings that a trace knows of.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use quell_event::trace::{Frame, Module, Process, Stack};

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
pub(crate) fn named(
    stacks: impl IntoIterator<Item = Stack>,
    processes: &HashMap<u32, Process>,
) -> HashMap<i32, Stack> {
    let mut stacks: Vec<Stack> = stacks.into_iter().collect();
    // a recording that was cut short has not come to the names
    quell_probe::name_frames(&mut stacks, |pid| processes.get(&pid));
    let number = |s: Stack| (s.id.cast_signed(), s);
    stacks.into_iter().map(number).collect()
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
            stacks: named(stacks, &processes),
            processes,
        }
    }

    /// Adds what was seen since; its code has been named.
    pub(crate) fn learn(&mut self, processes: Vec<Process>, stacks: Vec<Stack>) {
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
}

/// The last part of a path.
pub(crate) fn base(path: &str) -> &str {
    Path::new(path)
        .file_name()
        .and_then(|n| n.to_str())
        .unwrap_or(path)
}
