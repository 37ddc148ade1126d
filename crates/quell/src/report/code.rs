//! The code and the mappings that a trace knows of.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use quell_event::trace::{StackFrame, Trace, TracedProcess, TracedStack};

use super::mappings::Mappings;

/// Functions that only pass a request on to the kernel: the wrappers of glibc and musl, without their leading underscores.
const SYSCALL_WRAPPERS: &[&str] = &[
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
const VDSO_NAME: &str = "[vdso]";

/// Stacks by the number that rows have for them, with the names that can still be found.
pub(crate) fn name_stacks(
    stacks: impl IntoIterator<Item = TracedStack>,
    processes: &HashMap<u32, TracedProcess>,
) -> HashMap<i32, TracedStack> {
    let mut stacks: Vec<TracedStack> = stacks.into_iter().collect();
    // A recording that was cut short ended before its frames were named.
    quell_probe::name_frames(&mut stacks, |pid| processes.get(&pid));
    let number = |s: TracedStack| (s.id.cast_signed(), s);
    stacks.into_iter().map(number).collect()
}

/// Processes and stacks by their numbers.
pub(crate) struct Code {
    /// Each as it was read last.
    processes: HashMap<u32, TracedProcess>,
    mappings: Mappings,
    stacks: HashMap<i32, TracedStack>,
}

impl Code {
    /// The code of processes. Each may come several times, in the order in which it was read.
    pub(crate) fn new(
        seen: impl IntoIterator<Item = TracedProcess>,
        stacks: impl IntoIterator<Item = TracedStack>,
    ) -> Self {
        let mut code = Self {
            processes: HashMap::new(),
            mappings: Mappings::default(),
            stacks: HashMap::new(),
        };
        for process in seen {
            code.see_process(process);
        }
        code.stacks = name_stacks(stacks, &code.processes);
        code
    }

    /// The code of a trace, and the number of its lines that can't be read.
    ///
    /// # Errors
    ///
    /// If it can't be read.
    pub(crate) fn read_trace(trace: &Trace) -> anyhow::Result<(Self, u64)> {
        let mut code = Self::new([], []);
        let garbled = trace.for_each_process(|process| code.see_process(process))?;
        let stacks = trace.read_stacks()?;
        code.stacks = name_stacks(stacks.rows.into_values(), &code.processes);
        Ok((code, garbled + stacks.garbled))
    }

    /// Adds one reading of a process.
    fn see_process(&mut self, mut process: TracedProcess) {
        self.mappings.add_process(&process);
        // A process that ended while it was read has no names any more, so the earlier ones stay.
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

    /// Adds processes and stacks that came since, whose frames are named already.
    pub(crate) fn add_newer_code(
        &mut self,
        processes: Vec<TracedProcess>,
        stacks: Vec<TracedStack>,
    ) {
        self.stacks
            .extend(stacks.into_iter().map(|s| (s.id.cast_signed(), s)));
        for process in processes {
            self.mappings.replace_readings(&process);
            self.processes.insert(process.pid, process);
        }
    }

    /// All stacks, in no order.
    pub(crate) fn all_stacks(&self) -> impl Iterator<Item = &TracedStack> {
        self.stacks.values()
    }

    pub(crate) fn stack_by_number(&self, id: i32) -> Option<&TracedStack> {
        self.stacks.get(&id)
    }

    pub(crate) fn process_by_pid(&self, pid: u32) -> Option<&TracedProcess> {
        self.processes.get(&pid)
    }

    /// The watched processes, each as it was read last.
    pub(crate) fn watched_processes(&self) -> impl Iterator<Item = &TracedProcess> {
        self.processes.values().filter(|p| !p.stranger)
    }

    /// Whether a process was not watched itself, and only shot at watched ones. One that the trace does not describe is taken
    /// for a watched one.
    pub(crate) fn is_stranger(&self, pid: u32) -> bool {
        self.process_by_pid(pid).is_some_and(|p| p.stranger)
    }

    /// The mappings of all processes over time.
    pub(crate) fn mappings(&self) -> &Mappings {
        &self.mappings
    }

    /// The frame that asked for a shootdown: the innermost in a file that is no mere wrapper. Where there is none, the innermost
    /// frame of all counts, wrapper or not. None where the stack is not known or has no frame but in the vdso, through which
    /// every system call of a 32-bit program goes (`__kernel_vsyscall`).
    pub(crate) fn calling_frame(&self, stack: i32) -> Option<&StackFrame> {
        let frames = &self.stack_by_number(stack)?.frames;
        let is_kernels = |f: &StackFrame| f.module.as_deref() == Some(VDSO_NAME);
        let wrapper = |f: &StackFrame| {
            let name = f.symbol.as_deref().unwrap_or_default();
            let bare = name
                .split('@')
                .next()
                .unwrap_or(name)
                .trim_start_matches('_');
            SYSCALL_WRAPPERS.contains(&bare.strip_prefix("libc_").unwrap_or(bare))
        };
        frames
            .iter()
            .find(|f| f.module.is_some() && !is_kernels(f) && !wrapper(f))
            .or_else(|| frames.iter().find(|f| !is_kernels(f)))
    }

    /// The files from which the watched culprits ran code, without the kernel's own names in brackets.
    pub(crate) fn watched_modules(&self) -> Vec<PathBuf> {
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
pub(crate) fn file_name_of(path: &str) -> &str {
    Path::new(path)
        .file_name()
        .and_then(|n| n.to_str())
        .unwrap_or(path)
}
