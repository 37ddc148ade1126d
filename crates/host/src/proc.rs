//! `/proc/PID`: whether a process lives, its name, how it was started, and its children.

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use quell_event::Text;

use crate::under;

/// The process table under a root path.
#[derive(Debug, Clone)]
pub struct Proc {
    root: PathBuf,
}

/// The fields of `/proc/PID/stat` that quell uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// The name, at most 15 bytes, cleaned.
    pub comm: String,
    /// State letter: `R`, `S`, `D`, `Z`…
    pub state: char,
    /// The parent's id.
    pub ppid: u32,
    /// The kernel's flags of it (`PF_*`, include/linux/sched.h).
    pub flags: u64,
    /// Page faults that needed no disk, of all its threads, also those that have ended.
    pub minor_faults: u64,
    /// Page faults that waited for a disk.
    pub major_faults: u64,
    /// User time in clock ticks.
    pub utime: u64,
    /// System time in clock ticks.
    pub stime: u64,
    /// Number of threads.
    pub threads: u64,
    /// When it started, in clock ticks after boot: tells a reused id.
    pub start: u64,
}

impl Stat {
    /// Whether all of its threads have ended. The first one may have, and wait as a zombie for the others: then
    /// they are counted still (fs/proc/array.c, do_task_stat).
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.state == 'X' || self.state == 'Z' && self.threads <= 1
    }

    /// Whether it is one of the kernel's own threads: `PF_KTHREAD`.
    #[must_use]
    pub fn is_kernels(&self) -> bool {
        const PF_KTHREAD: u64 = 0x20_0000;
        self.flags & PF_KTHREAD != 0
    }
}

impl Proc {
    /// The process table of the machine whose file system starts at `root`.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Proc { root: root.into() }
    }

    /// The path of one file of a process.
    #[must_use]
    pub fn path_of(&self, pid: u32, name: &str) -> PathBuf {
        under(&self.root, Path::new(&format!("/proc/{pid}/{name}")))
    }

    /// The process or, where its first thread has ended while others run, one of those: whatever hangs on the memory,
    /// the root or the files of a process is not shown of a thread that has let go of them (kernel/exit.c,
    /// do_exit). Every thread has a folder of a process, which no listing shows (fs/proc/base.c,
    /// proc_pid_lookup).
    #[must_use]
    pub fn living_thread(&self, pid: u32) -> u32 {
        let left = self
            .stat(pid)
            .is_ok_and(|s| s.state == 'Z' && s.threads > 1);
        if !left {
            return pid;
        }
        let threads = self.thread_stats(pid).unwrap_or_default();
        let living = threads.iter().find(|(_, s)| !matches!(s.state, 'Z' | 'X'));
        living.map_or(pid, |(tid, _)| *tid)
    }

    /// Whether there is such a process. One that waits for its parent to ask counts as none: it has ended.
    #[must_use]
    pub fn exists(&self, pid: u32) -> bool {
        self.stat(pid).is_ok_and(|s| !s.has_ended())
    }

    /// The name of a process, cleaned.
    pub fn comm(&self, pid: u32) -> Result<String> {
        let bytes = self.read_file(pid, "comm")?;
        let name = String::from_utf8_lossy(bytes.strip_suffix(b"\n").unwrap_or(&bytes));
        Ok(Text::from(name).into())
    }

    /// Its arguments; empty for a kernel thread.
    pub fn cmdline(&self, pid: u32) -> Result<Vec<OsString>> {
        Ok(nul_separated(
            &self.read_file(self.living_thread(pid), "cmdline")?,
        ))
    }

    /// The environment that it was started with.
    pub fn environ(&self, pid: u32) -> Result<HashMap<OsString, OsString>> {
        let entries = nul_separated(&self.read_file(self.living_thread(pid), "environ")?);
        let pairs = entries.into_iter().filter_map(|entry| {
            let bytes = entry.into_vec();
            let at = bytes.iter().position(|b| *b == b'=')?;
            let value = OsString::from_vec(bytes[at + 1..].to_vec());
            Some((OsString::from_vec(bytes[..at].to_vec()), value))
        });
        Ok(pairs.collect())
    }

    /// The file that it executes, as the kernel names it.
    pub fn exe(&self, pid: u32) -> Result<PathBuf> {
        let link = self.path_of(self.living_thread(pid), "exe");
        std::fs::read_link(&link).with_context(|| format!("reading the link {}", link.display()))
    }

    /// Reads its `stat` file.
    pub fn stat(&self, pid: u32) -> Result<Stat> {
        let text = self.read_file(pid, "stat")?;
        parse_stat(&text).with_context(|| format!("parsing the stat file of process {pid}"))
    }

    /// Reads the `stat` files of its threads, each with the thread's id: counters of that thread
    /// alone. Threads that end meanwhile are left out.
    pub fn thread_stats(&self, pid: u32) -> Result<Vec<(u32, Stat)>> {
        let dir = self.path_of(pid, "task");
        let entries = std::fs::read_dir(&dir)
            .with_context(|| format!("listing the threads in {}", dir.display()))?;
        let tids = entries
            .flatten()
            .filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
        let stat = |tid: u32| {
            let text = self.read_file(pid, &format!("task/{tid}/stat")).ok()?;
            Some((tid, parse_stat(&text)?))
        };
        Ok(tids.filter_map(stat).collect())
    }

    /// The ids of every process.
    pub fn list_pids(&self) -> Result<Vec<u32>> {
        let dir = under(&self.root, Path::new("/proc"));
        let entries = std::fs::read_dir(&dir)
            .with_context(|| format!("listing the processes in {}", dir.display()))?;
        let mut pids: Vec<u32> = entries
            .flatten()
            .filter_map(|e| e.file_name().to_str()?.parse().ok())
            .collect();
        pids.sort_unstable();
        Ok(pids)
    }

    /// `pid` and all its descendants, parents before children.
    ///
    /// By scanning every process's parent: `task/*/children` needs a kernel option and misses
    /// children while they are being made. A child whose parent has ended is not found.
    pub fn process_tree(&self, pid: u32) -> Result<Vec<u32>> {
        let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
        for other in self.list_pids()? {
            // A process that ended since the listing is no error.
            if let Ok(stat) = self.stat(other) {
                children.entry(stat.ppid).or_default().push(other);
            }
        }
        let mut tree = vec![pid];
        let mut next = 0;
        while let Some(parent) = tree.get(next).copied() {
            next += 1;
            // Removed as they are used, so that a foreign table with a loop ends.
            tree.extend(
                children
                    .remove(&parent)
                    .unwrap_or_default()
                    .into_iter()
                    .filter(|c| *c != pid),
            );
        }
        Ok(tree)
    }

    fn read_file(&self, pid: u32, name: &str) -> Result<Vec<u8>> {
        let path = self.path_of(pid, name);
        std::fs::read(&path).with_context(|| format!("reading {}", path.display()))
    }
}

fn nul_separated(bytes: &[u8]) -> Vec<OsString> {
    let bytes = bytes.strip_suffix(b"\0").unwrap_or(bytes);
    if bytes.is_empty() {
        return Vec::new();
    }
    bytes
        .split(|b| *b == 0)
        .map(|s| OsString::from_vec(s.to_vec()))
        .collect()
}

/// The name is in parentheses and may hold anything, so the fields are counted from the last `)`.
fn parse_stat(text: &[u8]) -> Option<Stat> {
    let open = text.iter().position(|b| *b == b'(')?;
    let close = text.iter().rposition(|b| *b == b')')?;
    let comm = String::from_utf8_lossy(text.get(open + 1..close)?);
    let rest = std::str::from_utf8(text.get(close + 1..)?).ok()?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    // Field N of proc_pid_stat(5) is at N - 3: the state is field 3.
    let number = |n: usize| fields.get(n - 3)?.parse::<u64>().ok();
    Some(Stat {
        comm: Text::from(comm).into(),
        state: fields.first()?.chars().next()?,
        ppid: u32::try_from(number(4)?).ok()?,
        flags: number(9)?,
        minor_faults: number(10)?,
        major_faults: number(12)?,
        utime: number(14)?,
        stime: number(15)?,
        threads: number(20)?,
        start: number(22)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fixture(processes: &[(u32, u32, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (pid, ppid, comm) in processes {
            let at = dir.path().join(format!("proc/{pid}"));
            std::fs::create_dir_all(&at).unwrap();
            let stat =
                format!("{pid} ({comm}) S {ppid} 1 1 0 -1 0 5 0 6 0 7 8 0 0 20 0 3 0 99 0 0\n");
            std::fs::write(at.join("stat"), stat).unwrap();
        }
        dir
    }

    /// Check that a name with spaces and parentheses does not shift the fields.
    #[test]
    fn odd_names() {
        let dir = fixture(&[(5, 1, "a) (b R 9")]);
        let stat = Proc::new(dir.path()).stat(5).unwrap();
        assert_eq!(
            (stat.comm.as_str(), stat.state, stat.ppid),
            ("a) (b R 9", 'S', 1)
        );
        assert_eq!(
            (stat.utime, stat.stime, stat.threads, stat.start),
            (7, 8, 3, 99)
        );
        assert_eq!((stat.minor_faults, stat.major_faults), (5, 6));
    }

    /// Check that the tree holds all descendants and nobody else, and ends on a loop.
    #[test]
    fn tree() {
        let dir = fixture(&[
            (1, 0, "init"),
            (2, 1, "a"),
            (3, 2, "b"),
            (4, 2, "c"),
            (5, 3, "d"),
            (9, 1, "x"),
        ]);
        let proc = Proc::new(dir.path());
        assert_eq!(proc.process_tree(2).unwrap(), [2, 3, 4, 5]);
        assert_eq!(proc.process_tree(77).unwrap(), [77]);
        let dir = fixture(&[(2, 3, "a"), (3, 2, "b")]);
        assert_eq!(Proc::new(dir.path()).process_tree(2).unwrap(), [2, 3]);
    }

    /// Check that this process is found with its own arguments, environment and file.
    #[test]
    fn own() {
        let proc = Proc::new("/");
        let pid = std::process::id();
        assert!(proc.exists(pid) && !proc.exists(u32::MAX));
        assert_eq!(
            proc.cmdline(pid).unwrap(),
            std::env::args_os().collect::<Vec<_>>()
        );
        assert_eq!(Some(proc.exe(pid).unwrap()), std::env::current_exe().ok());
        assert!(!proc.comm(pid).unwrap().is_empty());
        let path = proc
            .environ(pid)
            .unwrap()
            .get(std::ffi::OsStr::new("PATH"))
            .cloned();
        assert_eq!(path, std::env::var_os("PATH"));
    }

    /// Check that a missing process is an error that names the file.
    #[test]
    fn missing() {
        let dir = fixture(&[]);
        let error = format!("{:#}", Proc::new(dir.path()).comm(5).unwrap_err());
        assert!(error.contains("proc/5/comm"), "{error}");
    }

    proptest! {
        /// Check that no bytes make the stat parser panic.
        #[test]
        fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse_stat(&bytes);
            let _ = nul_separated(&bytes);
        }
    }
}
