//! The processes that a command has made: found by their parents, stopped by descriptor.
//!
//! quell is a subreaper (PR_SET_CHILD_SUBREAPER, prctl(2)) while it runs a command, so a process whose
//! parent ended becomes quell's child and not init's: it is found again, and reaped when it ends.

use std::collections::HashSet;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use quell_host::proc::Proc;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// A process that can't be mistaken for a later one with the same id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: u32,
    /// Clock ticks after boot.
    start: u64,
    pub(super) comm: String,
}

/// quell's children.
#[derive(Default)]
struct Children {
    /// Those that somebody waits for by their id.
    awaited: Vec<u32>,
    /// Those that were there before the first command, with their start: a shell that became quell
    /// by `exec` hands its jobs on. They are none of our business.
    before: Option<HashSet<(u32, u64)>>,
}

static OWN_CHILDREN: Mutex<Children> = Mutex::new(Children {
    awaited: Vec::new(),
    before: None,
});

impl Children {
    /// Whether a child of quell's is one that a command left, and nobody waits for.
    fn is_orphan(&self, child: &Process) -> bool {
        let known = |before: &HashSet<_>| before.contains(&(child.pid, child.start));
        !self.awaited.contains(&child.pid) && !self.before.as_ref().is_none_or(known)
    }
}

fn lock_children() -> std::sync::MutexGuard<'static, Children> {
    OWN_CHILDREN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes quell the parent of its commands' orphans.
pub(super) fn adopt_orphans() -> anyhow::Result<()> {
    let mut children = lock_children();
    if children.before.is_some() {
        return Ok(());
    }
    let own = std::process::id();
    let all = all_processes().into_iter().filter(|p| p.ppid == own);
    children.before = Some(all.map(|p| (p.process.pid, p.process.start)).collect());
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .context("becoming the parent of the command's orphans (PR_SET_CHILD_SUBREAPER)")
}

/// From now on, `pid` is waited for by its id.
pub(super) fn await_child(pid: u32) {
    lock_children().awaited.push(pid);
}

/// `pid` has been waited for.
pub(super) fn forget_child(pid: u32) {
    lock_children().awaited.retain(|p| *p != pid);
}

struct Entry {
    process: Process,
    ppid: u32,
    dead: bool,
}

/// Every process there is. Processes that end while this is read are left out.
fn all_processes() -> Vec<Entry> {
    let pids = Proc::new("/").list_pids().unwrap_or_default();
    pids.into_iter().filter_map(process_entry).collect()
}

fn process_entry(pid: u32) -> Option<Entry> {
    let stat = Proc::new("/").stat(pid).ok()?;
    Some(Entry {
        dead: stat.has_ended(),
        process: Process {
            pid,
            start: stat.start,
            comm: stat.comm,
        },
        ppid: stat.ppid,
    })
}

/// When `pid` started, in clock ticks after boot.
pub(super) fn start_of(pid: u32) -> Option<u64> {
    Proc::new(Path::new("/")).stat(pid).ok().map(|s| s.start)
}

/// How often the descendants are looked for again where all that were seen have ended, and may have left a child meanwhile.
const MAX_LOOKS: usize = 1000;

/// The descendants of `root`, without itself, and the orphans that quell got since `since`, with
/// theirs: all that are alive. Empty only if there is none.
///
/// A walk through /proc misses processes that fork and end as it goes. But each of their orphans comes to quell at
/// once, and stays in the list of its children until it is waited for: while any descendant lives, the list has one.
pub(super) fn descendants(root: u32, since: u64) -> Vec<Process> {
    let mut found = Vec::new();
    for _ in 0..MAX_LOOKS {
        found = walk_descendants(root, since);
        let orphans = list_orphans(since);
        let is_new = |p: &Process| p.pid != root && !found.iter().any(|f: &Process| f.pid == p.pid);
        let more = orphans.iter().filter(|o| !o.dead).map(|o| &o.process);
        let more: Vec<Process> = more.filter(|p| is_new(p)).cloned().collect();
        found.extend(more);
        if !found.is_empty() || orphans.is_empty() {
            break;
        }
        reap_orphans();
    }
    found
}

fn walk_descendants(root: u32, since: u64) -> Vec<Process> {
    let own = std::process::id();
    let children = lock_children();
    let mut rest = all_processes();
    let mut found: Vec<Process> = Vec::new();
    let mut parents: HashSet<u32> = HashSet::from([root]);
    loop {
        let (more, others): (Vec<_>, Vec<_>) = rest.into_iter().partition(|p| {
            let orphan =
                p.ppid == own && p.process.start >= since && children.is_orphan(&p.process);
            p.process.pid != own && (parents.contains(&p.ppid) || orphan)
        });
        if more.is_empty() {
            break;
        }
        parents.extend(more.iter().map(|p| p.process.pid));
        found.extend(more.into_iter().filter(|p| !p.dead).map(|p| p.process));
        rest = others;
    }
    found.retain(|p| p.pid != root);
    found
}

/// The orphans that quell got since `since`, and has not waited for: those too that have ended.
fn list_orphans(since: u64) -> Vec<Entry> {
    let own = std::process::id();
    let children = lock_children();
    // Orphans come to the first thread (kernel/exit.c: find_new_reaper()).
    let listed = std::fs::read_to_string(format!("/proc/self/task/{own}/children"));
    let all = match listed {
        Ok(list) => list
            .split_ascii_whitespace()
            .filter_map(|pid| process_entry(pid.parse().ok()?))
            .collect(),
        // A kernel without CONFIG_PROC_CHILDREN.
        Err(_) => all_processes(),
    };
    let ours =
        |p: &Entry| p.ppid == own && p.process.start >= since && children.is_orphan(&p.process);
    all.into_iter().filter(ours).collect()
}

/// Kills the orphans that quell got since `since`, and theirs as they come, until there is none or the time is over.
/// Without a pause: of a chain of processes, each of which forks the next and ends, one has to be met before it forks.
pub(super) fn kill_orphans(since: u64, time: Duration) {
    let end = Instant::now() + time;
    loop {
        let orphans = list_orphans(since);
        for one in orphans.iter().filter(|o| !o.dead) {
            let Ok(pid) = i32::try_from(one.process.pid) else {
                continue;
            };
            // SAFETY: kill(2) of a child that was not waited for, so that nobody else has its id.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
        if orphans.is_empty() || Instant::now() >= end {
            return;
        }
        reap_orphans();
    }
}

/// Reaps the orphans that have ended, so that they don't pile up as zombies.
pub(super) fn reap_orphans() {
    // SAFETY: waitid(2) with a zeroed struct to fill in; WNOWAIT leaves the child as it is.
    let has_ended = unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        libc::waitid(libc::P_ALL, 0, &raw mut info, flags) == 0 && info.si_pid() != 0
    };
    // Most calls find no ended child.
    if !has_ended {
        return;
    }
    for one in list_orphans(0).iter().filter(|o| o.dead) {
        if let Ok(pid) = i32::try_from(one.process.pid) {
            // SAFETY: waitpid(2) for a zombie child; no status is asked for.
            unsafe { libc::waitpid(pid, std::ptr::null_mut(), libc::WNOHANG) };
        }
    }
}

/// Sends a signal, but never to a later process with the same id: a descriptor holds on to one
/// process (pidfd_open(2)), and the start time says that it is the right one.
pub(super) fn signal_process(process: &Process, signal: Signal) {
    let pid = i32::try_from(process.pid).ok().and_then(Pid::from_raw);
    let Some(pid) = pid else { return };
    let Ok(fd) = pidfd_open(pid, PidfdFlags::empty()) else {
        return;
    };
    if start_of(process.pid) == Some(process.start) {
        // It may have ended, and then the signal is not needed.
        let _ = pidfd_send_signal(fd, signal);
    }
}
