//! What `perf record` saw in the same run, sorted by tables of its own.

use std::collections::{HashMap, HashSet};
use std::ffi::CString;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// perf at work, on all CPUs.
pub(crate) struct Recording {
    child: Child,
    data: PathBuf,
    /// Held open until it ends.
    _control: File,
}

/// What it left.
pub(crate) struct Recorded {
    data: PathBuf,
}

/// How many samples of a process and all that came from it are memory management.
#[derive(Clone, Copy, Default)]
pub(crate) struct Shares {
    pub(crate) samples: u64,
    pub(crate) memory: u64,
}

/// A wait for a lock that has readers and writers.
pub(crate) struct Wait {
    pub(crate) pid: u32,
    pub(crate) lock: String,
    pub(crate) ns: u64,
}

/// Functions on the way to memory management, as Linux 5.19 to 7.3 have them: system calls by where they are entered, and all
/// else by what leads to it. Compilers leave out of a stack what ends by a jump, so a call has several.
const MEMORY: &[&str] = &[
    "asm_exc_page_fault",
    // also where the kernel itself needs a page of a program
    "handle_mm_fault",
    "__x64_sys_mmap",
    "ksys_mmap_pgoff",
    "vm_mmap_pgoff",
    "__do_sys_brk",
    "__do_sys_mremap",
    "__mmput",
    "__x64_sys_munmap",
    "__x64_sys_madvise",
    "__x64_sys_process_madvise",
    "__x64_sys_mprotect",
    "__x64_sys_pkey_mprotect",
    "__x64_sys_mremap",
    "__x64_sys_brk",
    "__x64_sys_msync",
    "__x64_sys_mlock",
    "__x64_sys_munlock",
    "__x64_sys_mincore",
    "exit_mm",
    "exit_mmap",
    "mmput",
    "dup_mm",
    "dup_mmap",
    "exec_mmap",
    "begin_new_exec",
    "setup_arg_pages",
    "elf_load",
    "vm_brk_flags",
    "vm_mmap",
    "do_try_to_free_pages",
    "balance_dirty_pages",
];

/// An interrupt came in: what it does is not for whom it stopped.
fn is_interrupt(function: &str) -> bool {
    function.starts_with("asm_sysvec_") || function == "asm_common_interrupt"
}

fn fifo(path: &Path) {
    let name = CString::new(path.display().to_string()).expect("no NUL");
    // SAFETY: a text that ends with a NUL.
    let made = unsafe { libc::mkfifo(name.as_ptr(), 0o600) };
    assert_eq!(made, 0, "mkfifo: {}", std::io::Error::last_os_error());
}

impl Recording {
    /// Begins, and comes back once it records. `None` if there is no perf.
    pub(crate) fn start(data: &Path, events: &[&str]) -> Option<Self> {
        let found = Command::new("perf").arg("version").output();
        if !found.is_ok_and(|out| out.status.success()) {
            return None;
        }
        let control = data.with_extension("control");
        let done = data.with_extension("done");
        fifo(&control);
        fifo(&done);
        let child = Command::new("perf")
            .args(["record", "-q", "-a", "-m", "8M", "-D", "-1", "-o"])
            .arg(data)
            .arg(format!(
                "--control=fifo:{},{}",
                control.display(),
                done.display()
            ))
            .args(events)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("perf starts");
        // both ends, so that neither side waits for the other to open it
        let open = |path| File::options().read(true).write(true).open(path);
        let mut control = open(&control).expect("a pipe");
        control.write_all(b"enable\n").expect("perf is told");
        let mut answer = [0; 4];
        let mut done = open(&done).expect("a pipe");
        done.read_exact(&mut answer).expect("perf answers");
        Some(Self {
            child,
            data: data.to_owned(),
            _control: control,
        })
    }

    pub(crate) fn stop(mut self) -> Recorded {
        let pid = libc::pid_t::try_from(self.child.id()).expect("a pid");
        // SAFETY: a signal to our own child, which has not been waited for.
        unsafe { libc::kill(pid, libc::SIGINT) };
        self.child.wait().expect("perf ends");
        Recorded { data: self.data }
    }
}

impl Recorded {
    pub(crate) fn script(&self, fields: &str) -> String {
        let out = Command::new("perf")
            .args(["script", "--ns", "--show-task-events"])
            .args(["--show-lost-events", "-F", fields, "-i"])
            .arg(&self.data)
            .output()
            .expect("perf starts");
        assert!(out.status.success(), "{out:?}");
        String::from_utf8_lossy(&out.stdout).into_owned()
    }

    /// Did it have no room for some? Sums are too small then.
    pub(crate) fn lacks_some(&self) -> bool {
        self.script("comm,pid,tid,time")
            .contains("PERF_RECORD_LOST")
    }

    /// The processes that came from one.
    pub(crate) fn family(&self, of: u32) -> HashSet<u32> {
        let text = self.script("comm,pid,tid");
        let mut family = HashSet::new();
        for (pid, parent) in text.lines().filter_map(fork) {
            // threads of its own are no children
            if pid != of && (parent == of || family.contains(&parent)) {
                family.insert(pid);
            }
        }
        family
    }

    /// The samples of the processes that came from one.
    pub(crate) fn shares(&self, of: u32) -> Shares {
        let family = self.family(of);
        let text = self.script("comm,pid,tid,ip,sym");
        let mut shares = Shares {
            samples: 0,
            memory: 0,
        };
        for entry in entries(&text) {
            if entry[0].contains(" PERF_RECORD_")
                || !pid(entry[0]).is_some_and(|pid| family.contains(&pid))
            {
                continue;
            }
            shares.samples += 1;
            let functions = functions(&entry[1..]);
            let is_memory = functions.iter().any(|f| MEMORY.contains(f));
            let is_interrupted = functions.iter().any(|f| is_interrupt(f));
            shares.memory += u64::from(is_memory && !is_interrupted);
        }
        shares
    }

    /// From `contention_begin` to `contention_end`, of each thread and lock.
    pub(crate) fn waits(&self) -> Vec<Wait> {
        let text = self.script("comm,pid,tid,time,event,trace");
        let mut begun: HashMap<(String, String), u64> = HashMap::new();
        let mut waits = Vec::new();
        for line in text.lines() {
            let Some((head, told)) = line.split_once("lock:contention_") else {
                continue;
            };
            let words: Vec<&str> = head.split_whitespace().collect();
            let [.., thread, time] = words.as_slice() else {
                continue;
            };
            let Some(at) = time
                .trim_end_matches(':')
                .split_once('.')
                .and_then(|(s, ns)| {
                    Some(s.parse::<u64>().ok()? * 1_000_000_000 + ns.parse::<u64>().ok()?)
                })
            else {
                continue;
            };
            let lock = told
                .split_whitespace()
                .nth(1)
                .unwrap_or_default()
                .to_owned();
            let key = ((*thread).to_owned(), lock.clone());
            if told.starts_with("begin") {
                if told.contains("READ") || told.contains("WRITE") {
                    begun.insert(key, at);
                }
            } else if let Some(began) = begun.remove(&key) {
                waits.push(Wait {
                    pid: pid(head).unwrap_or_default(),
                    lock,
                    ns: at - began,
                });
            }
        }
        waits
    }
}

/// The functions of a stack, innermost first.
pub(crate) fn functions<'t>(stack: &[&'t str]) -> Vec<&'t str> {
    let words = stack.iter().map(|line| line.split_whitespace().nth(1));
    words.flatten().collect()
}

/// A sample is a line and the lines of its stack; an event of a task is a line.
pub(crate) fn entries(text: &str) -> Vec<Vec<&str>> {
    let mut all: Vec<Vec<&str>> = Vec::new();
    for line in text.lines().filter(|l| !l.trim().is_empty()) {
        match all.last_mut() {
            Some(last) if line.starts_with(char::is_whitespace) && pid(line).is_none() => {
                last.push(line);
            }
            _ => all.push(vec![line]),
        }
    }
    all
}

/// Of `comm pid/tid`.
pub(crate) fn pid(line: &str) -> Option<u32> {
    line.split_whitespace().find_map(|word| {
        let (pid, tid) = word.split_once('/')?;
        tid.parse::<u32>().ok()?;
        pid.parse().ok()
    })
}

/// Of `PERF_RECORD_FORK(pid:tid):(ppid:ptid)`.
fn fork(line: &str) -> Option<(u32, u32)> {
    let (_, told) = line.split_once("PERF_RECORD_FORK(")?;
    let (child, parent) = told.split_once("):(")?;
    let first = |s: &str| s.split(':').next()?.parse().ok();
    Some((first(child)?, first(parent)?))
}
