//! The processes that a command has made: found by their parents, stopped by descriptor.
//!
//! quell is a subreaper (PR_SET_CHILD_SUBREAPER, prctl(2)) while it runs a command, so a process whose
//! parent ended becomes quell's child and not init's: it is found again, and reaped when it ends.

use std::collections::HashSet;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

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

static CHILDREN: Mutex<Children> = Mutex::new(Children {
    awaited: Vec::new(),
    before: None,
});

fn children() -> std::sync::MutexGuard<'static, Children> {
    CHILDREN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes quell the parent of its commands' orphans.
pub(super) fn adopt_orphans() -> anyhow::Result<()> {
    let mut children = children();
    if children.before.is_some() {
        return Ok(());
    }
    let own = std::process::id();
    let all = table().into_iter().filter(|p| p.ppid == own);
    children.before = Some(all.map(|p| (p.process.pid, p.process.start)).collect());
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .context("becoming the parent of the command's orphans (PR_SET_CHILD_SUBREAPER)")
}

/// From now on, `pid` is waited for by its id.
pub(super) fn await_child(pid: u32) {
    children().awaited.push(pid);
}

/// `pid` was waited for.
pub(super) fn awaited(pid: u32) {
    children().awaited.retain(|p| *p != pid);
}

struct Entry {
    process: Process,
    ppid: u32,
    dead: bool,
}

/// Every process there is. What ends while this is read is left out.
fn table() -> Vec<Entry> {
    let proc = Proc::new(Path::new("/"));
    let pids = proc.pids().unwrap_or_default();
    let entry = |pid| {
        let stat = proc.stat(pid).ok()?;
        Some(Entry {
            process: Process {
                pid,
                start: stat.start,
                comm: stat.comm,
            },
            ppid: stat.ppid,
            dead: matches!(stat.state, 'Z' | 'X'),
        })
    };
    pids.into_iter().filter_map(entry).collect()
}

/// When `pid` started, in clock ticks after boot.
pub(super) fn start_of(pid: u32) -> Option<u64> {
    Proc::new(Path::new("/")).stat(pid).ok().map(|s| s.start)
}

/// The descendants of `root`, without itself, and the orphans that quell got since `since`, with
/// theirs: all that are alive.
pub(super) fn descendants(root: u32, since: u64) -> Vec<Process> {
    let own = std::process::id();
    let children = children();
    let nobody = HashSet::new();
    let before = children.before.as_ref().unwrap_or(&nobody);
    let mut rest = table();
    let mut found: Vec<Process> = Vec::new();
    let mut parents: HashSet<u32> = HashSet::from([root]);
    loop {
        let (more, others): (Vec<_>, Vec<_>) = rest.into_iter().partition(|p| {
            let orphan = p.ppid == own
                && p.process.start >= since
                && !children.awaited.contains(&p.process.pid)
                && !before.contains(&(p.process.pid, p.process.start));
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

/// Reaps the orphans that have ended, so that they don't pile up as zombies.
pub(super) fn reap_orphans() {
    let children = children();
    loop {
        // SAFETY: waitid(2) with a zeroed struct to fill in; WNOWAIT leaves the child as it is.
        let pid = unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
            if libc::waitid(libc::P_ALL, 0, &raw mut info, flags) != 0 {
                return;
            }
            info.si_pid()
        };
        let Ok(known) = u32::try_from(pid) else {
            return;
        };
        if known == 0 || children.awaited.contains(&known) {
            return;
        }
        let start = start_of(known).unwrap_or(0);
        if children
            .before
            .as_ref()
            .is_none_or(|b| b.contains(&(known, start)))
        {
            return;
        }
        // SAFETY: waitpid(2) for a zombie child; no status is asked for.
        if unsafe { libc::waitpid(pid, std::ptr::null_mut(), libc::WNOHANG) } <= 0 {
            return;
        }
    }
}

/// Sends a signal, but never to a later process with the same id: a descriptor holds on to one
/// process (pidfd_open(2)), and the start time says that it is the right one.
pub(super) fn signal(process: &Process, signal: Signal) {
    let pid = i32::try_from(process.pid).ok().and_then(Pid::from_raw);
    let Some(pid) = pid else { return };
    let Ok(fd) = pidfd_open(pid, PidfdFlags::empty()) else {
        return;
    };
    if start_of(process.pid) == Some(process.start) {
        // It may have ended, which is what was wanted.
        let _ = pidfd_send_signal(fd, signal);
    }
}
