//! From addresses to code: which file, at which offset, and what it is called.
//!
//! Files and offsets are looked up while the process lives, for its mappings go with it. Names come
//! last, from the files, when nothing is measured any more.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use quell_event::trace::{Frame, Module, Process, Stack, StackKind};
use quell_host::maps::{self, Mapping};
use quell_host::proc::Proc;

use crate::causes::stack;
use crate::interner::NewStack;
use crate::loader::{Maps, Probe};

/// Reading maps takes the process's mmap_lock: not more often than this for the same process.
const AGAIN: Duration = Duration::from_millis(200);

/// What is known of a process.
struct Snapshot {
    maps: Vec<Mapping>,
    taken: Instant,
}

/// Looks up the code behind stacks.
pub struct Resolver {
    maps: Rc<Maps>,
    causes: Rc<std::cell::RefCell<crate::causes::Causes>>,
    root: PathBuf,
    snapshots: HashMap<u32, Snapshot>,
    changed: Vec<u32>,
}

impl Resolver {
    /// For the stacks of this probe.
    #[must_use]
    pub fn new(probe: &Probe) -> Self {
        Self {
            maps: Rc::clone(&probe.maps),
            causes: Rc::clone(&probe.causes),
            root: PathBuf::from("/"),
            snapshots: HashMap::new(),
            changed: Vec::new(),
        }
    }

    /// Makes sure that the mappings of a process have been read once, and again if they are older
    /// than `age`.
    pub fn see(&mut self, pid: u32, age: Duration) {
        if pid == 0
            || self
                .snapshots
                .get(&pid)
                .is_some_and(|s| s.taken.elapsed() < age)
        {
            return;
        }
        // the process may be gone: then what was read before stays
        let read = maps::read(&self.root, pid).unwrap_or_default();
        let known = self.snapshots.entry(pid).or_insert_with(|| Snapshot {
            maps: Vec::new(),
            taken: Instant::now(),
        });
        known.taken = Instant::now();
        if !read.is_empty() && named(&read).ne(named(&known.maps)) {
            known.maps = read;
            if !self.changed.contains(&pid) {
                self.changed.push(pid);
            }
        }
    }

    /// Finds the file and offset of every frame.
    pub fn resolve(&mut self, new: &[NewStack]) -> Vec<Stack> {
        new.iter()
            .map(|n| match n.pid {
                None => self.kernel(n),
                Some(pid) => self.user(n, pid),
            })
            .collect()
    }

    fn kernel(&self, new: &NewStack) -> Stack {
        let addresses = stack(&self.maps, new.kernel_id).unwrap_or_default();
        let names = self.causes.borrow().kernel_names(&addresses);
        let names = names.unwrap_or_default();
        // how the probe itself was called is nobody's business
        let probe = ["bpf_", "__bpf_", "__traceiter_"];
        let probe = names
            .iter()
            .take_while(|name| probe.iter().any(|p| name.starts_with(p)))
            .count();
        let frames = addresses
            .iter()
            .enumerate()
            .skip(probe)
            .map(|(i, &addr)| Frame {
                addr,
                symbol: names.get(i).cloned(),
                module: None,
                offset: None,
                caller: false,
            })
            .collect();
        Stack {
            id: new.id,
            kind: StackKind::Kernel,
            frames,
            ..Stack::default()
        }
    }

    fn user(&mut self, new: &NewStack, pid: u32) -> Stack {
        let mut addresses = stack(&self.maps, new.kernel_id).unwrap_or_default();
        self.see(pid, Duration::MAX);
        let uncovered = |maps: &[Mapping]| addresses.iter().any(|&a| code_at(maps, a).is_none());
        if self.snapshots.get(&pid).is_none_or(|s| uncovered(&s.maps)) {
            self.see(pid, AGAIN);
        }
        let maps = self.snapshots.get(&pid).map_or(&[][..], |s| &s.maps);
        // A wrapper such as libc's madvise() keeps no frame pointer, so the walk misses its caller,
        // whose return address lies on top of the stack. Taken only if it is one.
        let caller = new.caller;
        let missed = caller != 0
            && addresses.get(1) != Some(&caller)
            && code_at(maps, caller).is_some_and(|m| follows_call(m, caller));
        if missed {
            addresses.insert(addresses.len().min(1), caller);
        }
        let frames = addresses
            .iter()
            .enumerate()
            .map(|(i, &addr)| {
                let module = code_at(maps, addr);
                Frame {
                    addr,
                    symbol: None,
                    module: module.and_then(|m| Some(m.path.as_ref()?.display().to_string())),
                    offset: module
                        .filter(|m| m.is_file())
                        .map(|m| addr - m.start + m.offset),
                    caller: missed && i == 1,
                }
            })
            .collect();
        Stack {
            id: new.id,
            kind: StackKind::User,
            pid: Some(pid),
            frames,
            gone: maps.is_empty(),
            ..Stack::default()
        }
    }

    /// The processes whose named mappings are new or have changed since the last call.
    pub fn changed(&mut self) -> Vec<Process> {
        let changed = std::mem::take(&mut self.changed);
        changed
            .into_iter()
            .filter_map(|pid| self.process(pid))
            .collect()
    }

    fn process(&self, pid: u32) -> Option<Process> {
        let snapshot = self.snapshots.get(&pid)?;
        let proc = Proc::new(&self.root);
        let lossy = |s: std::ffi::OsString| s.to_string_lossy().into_owned();
        Some(Process {
            pid,
            t_ns: 0,
            comm: proc.comm(pid).unwrap_or_default(),
            exe: proc
                .exe(pid)
                .map(|p| p.display().to_string())
                .unwrap_or_default(),
            cmdline: proc
                .cmdline(pid)
                .unwrap_or_default()
                .into_iter()
                .map(lossy)
                .collect(),
            modules: named(&snapshot.maps).map(module).collect(),
        })
    }
}

/// The mappings that a report can name: of files, the heap, the main stack. Anonymous ones come and
/// go with every allocation, and are told by who unmaps them.
fn named(maps: &[Mapping]) -> impl Iterator<Item = &Mapping> {
    maps.iter().filter(|m| m.path.is_some())
}

fn module(m: &Mapping) -> Module {
    let flag = |on, c| if on { c } else { '-' };
    Module {
        path: m
            .path
            .as_ref()
            .map(|p| p.display().to_string())
            .unwrap_or_default(),
        start: m.start,
        end: m.end,
        offset: m.offset,
        perms: [
            flag(m.perms.read, 'r'),
            flag(m.perms.write, 'w'),
            flag(m.perms.exec, 'x'),
            if m.perms.shared { 's' } else { 'p' },
        ]
        .iter()
        .collect(),
        // as makedev(3) packs it
        dev: libc::makedev(m.dev.0, m.dev.1),
        inode: m.inode,
        build_id: None,
    }
}

/// The executable mapping at an address.
fn code_at(maps: &[Mapping], address: u64) -> Option<&Mapping> {
    maps::at(maps, address).filter(|m| m.perms.exec)
}

/// Does the instruction before this address call something? Read from the file, so that it also
/// works when the process is gone.
fn follows_call(mapping: &Mapping, address: u64) -> bool {
    use std::os::unix::fs::FileExt as _;
    const LONGEST: usize = 7;
    let Some(path) = mapping.path.as_deref().filter(|_| mapping.is_file()) else {
        return false;
    };
    let offset = address - mapping.start + mapping.offset;
    let Some(from) = offset.checked_sub(LONGEST as u64) else {
        return false;
    };
    let mut before = [0; LONGEST];
    open(path)
        .and_then(|f| f.read_exact_at(&mut before, from))
        .is_ok_and(|()| ends_in_call(&before))
}

fn open(path: &Path) -> std::io::Result<std::fs::File> {
    std::fs::File::open(path)
}

/// Is the end of these bytes a call of x86-64? `e8` with four bytes of distance, or `ff /2` with a
/// register, a memory operand, and one or four bytes of displacement (Intel SDM, volume 2, CALL).
fn ends_in_call(code: &[u8]) -> bool {
    let at = |back: usize| {
        code.len()
            .checked_sub(back)
            .and_then(|i| code.get(i))
            .copied()
    };
    let indirect = |back: usize| {
        at(back) == Some(0xff) && at(back - 1).is_some_and(|modrm| modrm & 0x38 == 0x10)
    };
    at(5) == Some(0xe8) || [2, 3, 4, 6, 7].into_iter().any(indirect)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that calls of every form are seen, and that what precedes another instruction is not.
    #[test]
    fn calls_are_recognised() {
        assert!(ends_in_call(&[0x90, 0x90, 0xe8, 1, 2, 3, 4]));
        assert!(ends_in_call(&[0, 0, 0, 0, 0, 0xff, 0xd0])); // call *%rax
        assert!(ends_in_call(&[0, 0xff, 0x15, 1, 2, 3, 4])); // call *disp(%rip)
        assert!(ends_in_call(&[0, 0, 0, 0, 0xff, 0x53, 0x18])); // call *0x18(%rbx)
        assert!(!ends_in_call(&[0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x10]));
        assert!(!ends_in_call(&[0xff, 0xe0]));
        assert!(!ends_in_call(&[]));
    }
}
