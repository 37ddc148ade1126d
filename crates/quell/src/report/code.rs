//! The code and the mappings that a trace knows of.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use quell_event::trace::{Frame, Process, Stack, Trace};

use super::mappings::Mappings;

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

/// The code that the kernel maps into each process, as /proc/PID/maps has it (vdso(7)).
const VDSO: &str = "[vdso]";

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
    /// As they were seen last.
    processes: HashMap<u32, Process>,
    mappings: Mappings,
    stacks: HashMap<i32, Stack>,
}

impl Code {
    /// Of processes, each as often as it was looked at, in that order.
    pub(crate) fn new(
        seen: impl IntoIterator<Item = Process>,
        stacks: impl IntoIterator<Item = Stack>,
    ) -> Self {
        let mut code = Self {
            processes: HashMap::new(),
            mappings: Mappings::default(),
            stacks: HashMap::new(),
        };
        for process in seen {
            code.see(process);
        }
        code.stacks = named(stacks, &code.processes);
        code
    }

    /// Of a trace, and how many lines of it can't be read.
    ///
    /// # Errors
    ///
    /// If it can't be read.
    pub(crate) fn read(trace: &Trace) -> anyhow::Result<(Self, u64)> {
        let mut code = Self::new([], []);
        let garbled = trace.each_process(|process| code.see(process))?;
        let stacks = trace.stacks()?;
        code.stacks = named(stacks.rows.into_values(), &code.processes);
        Ok((code, garbled + stacks.garbled))
    }

    fn see(&mut self, mut process: Process) {
        self.mappings.add(&process);
        // one that ended as it was read has no names any more
        if let Some(before) = self.processes.remove(&process.pid) {
            if process.comm.is_empty() {
                process.comm = before.comm;
            }
            if process.exe.is_empty() {
                process.exe = before.exe;
            }
        }
        self.processes.insert(process.pid, process);
    }

    /// Adds what was seen since; its code has been named.
    pub(crate) fn learn(&mut self, processes: Vec<Process>, stacks: Vec<Stack>) {
        self.stacks
            .extend(stacks.into_iter().map(|s| (s.id.cast_signed(), s)));
        for process in processes {
            self.mappings.renew(&process);
            self.processes.insert(process.pid, process);
        }
    }

    /// All stacks, in no order.
    pub(crate) fn stacks(&self) -> impl Iterator<Item = &Stack> {
        self.stacks.values()
    }

    pub(crate) fn stack(&self, id: i32) -> Option<&Stack> {
        self.stacks.get(&id)
    }

    pub(crate) fn process(&self, pid: u32) -> Option<&Process> {
        self.processes.get(&pid)
    }

    /// Those that were watched, as they were seen last.
    pub(crate) fn processes(&self) -> impl Iterator<Item = &Process> {
        self.processes.values().filter(|p| !p.stranger)
    }

    /// Whether a process only shot at those that were watched.
    pub(crate) fn is_stranger(&self, pid: u32) -> bool {
        self.process(pid).is_some_and(|p| p.stranger)
    }

    /// What was mapped where, and when.
    pub(crate) fn mappings(&self) -> &Mappings {
        &self.mappings
    }

    /// The frame that called for a shootdown: the innermost that is no mere wrapper. None where only the kernel's own
    /// code in the process is known, through which every system call of a 32-bit program goes (`__kernel_vsyscall`).
    pub(crate) fn caller(&self, stack: i32) -> Option<&Frame> {
        let frames = &self.stack(stack)?.frames;
        let is_kernels = |f: &Frame| f.module.as_deref() == Some(VDSO);
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
            .find(|f| f.module.is_some() && !is_kernels(f) && !wrapper(f))
            .or_else(|| frames.iter().find(|f| !is_kernels(f)))
    }

    /// Files that the culprits among the watched ran code from, without the kernel's own names in brackets.
    pub(crate) fn modules(&self) -> Vec<PathBuf> {
        let files: BTreeSet<&str> = self
            .processes
            .values()
            .filter(|p| !p.stranger)
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
