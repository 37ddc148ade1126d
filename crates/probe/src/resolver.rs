//! Finds the code behind addresses: its file, its offset there, and its name.
//!
//! Files and offsets are looked up while the process lives, for its mappings go with it. Names come
//! last, from the files, when nothing is measured any more.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use quell_event::trace::{
    MappedModule, MissingNameReason, StackFrame, StackKind, TracedProcess, TracedStack,
};
use quell_host::maps::{self, Mapping};
use quell_host::proc::Proc;

use crate::bpf_maps::{ProbeMaps, stack_addresses};
use crate::call_site::ends_in_call;
use crate::error::Result;
use crate::interner::NewStack;
use crate::layout::STACK_DEPTH;
use crate::loader::Probe;
use crate::symbols::{self, CodeFiles, FrameSource, JitMaps};
use crate::unwind::{
    FollowedStack, PieceKind, StackPiece, StackPieces, Unwinder, UnwoundStack, is_of_piece,
};

/// Reading the mappings of a process may take one part in so many of the time, because it takes the process's mmap_lock, and
/// its threads wait for that meanwhile.
const MAX_READING_PART: u32 = 100;
/// The shortest and the longest time until mappings are read again. A program that is over in 100 ms was first seen while the
/// loader worked, and the libraries that it loaded since must be found before it ends. One that makes its code as it runs
/// always has new frames; where quell loses its CPU while it reads, such a program once waited for 112 ms.
const REREAD_BOUNDS: [Duration; 2] = [Duration::from_millis(2), Duration::from_secs(2)];

/// The shortest and the longest age at which mappings are read again without a frame outside of them.
const REREAD_AGES: [Duration; 2] = [Duration::from_millis(30), Duration::from_secs(5)];

/// The shortest time until mappings are read again because a stack leads to a place without code. Code of a JIT often is such a
/// place for good, and the process's threads wait for its lock meanwhile.
const MIN_REREAD_FOR_UNWINDING: Duration = Duration::from_millis(50);
/// A process that was first seen within this time may still load its libraries, and is read again sooner, for one part in so many
/// of the time: it may have ended before a longer pause is over.
const BEGINNING_TIME: Duration = Duration::from_secs(1);
const MAX_FIRST_READING_PART: u32 = 10;

/// With more processes than this, those that have ended are looked for and forgotten.
const SNAPSHOTS_BEFORE_CLEANUP: usize = 1024;

/// Stacks of a process may come until so long after it ended.
const LATE_STACKS_TIME: Duration = Duration::from_secs(10);

/// Whether a stack has as many frames as are kept, so that those beyond are missing.
fn is_cut(addresses: &[u64]) -> bool {
    addresses.len() >= STACK_DEPTH
}

/// The mappings of a process, and when they were read.
struct ProcessSnapshot {
    maps: Vec<Mapping>,
    /// When the mappings with a name were first found as they are, ns of CLOCK_MONOTONIC.
    t_ns: u64,
    taken: Instant,
    /// When they were first read.
    first: Instant,
    /// How long reading them took, with the wait for the lock.
    took: Duration,
    /// The process is none of those that are watched.
    stranger: bool,
    /// How long to wait before they are read again for a frame outside of them: longer each time that they were for such a frame and
    /// no new code was found, because a frame that is no code is never found.
    wait: Duration,
}

impl ProcessSnapshot {
    /// How old they must be to be read again because an address was not found in them.
    fn reread_after(&self) -> Duration {
        self.shortest_pause().max(self.wait)
    }

    /// How long they are left alone at least, so that reading takes the part of the time that it may. It takes longer the more
    /// threads want the lock, and these are left alone for longer.
    fn shortest_pause(&self) -> Duration {
        let part = match self.first.elapsed() < BEGINNING_TIME {
            true => MAX_FIRST_READING_PART,
            false => MAX_READING_PART,
        };
        (self.took * part).min(REREAD_BOUNDS[1])
    }
}

/// Looks up the code behind stacks.
pub struct StackResolver {
    maps: Rc<ProbeMaps>,
    pieces: Option<Rc<StackPieces>>,
    unwinder: Unwinder,
    causes: Rc<std::cell::RefCell<crate::causes::Causes>>,
    root: PathBuf,
    snapshots: HashMap<u32, ProcessSnapshot>,
    /// With so many snapshots, those of ended processes are dropped.
    cleanup_at: usize,
    changed: Vec<u32>,
    files: CodeFiles,
    jits: JitMaps,
    /// By the number of the stack, the source of each of its frames.
    sources: HashMap<u32, Vec<FrameSource>>,
}

impl StackResolver {
    /// A resolver for the stacks of this probe.
    #[must_use]
    pub fn new(probe: &Probe) -> Self {
        Self {
            maps: Rc::clone(&probe.maps),
            pieces: probe.stack_pieces(),
            unwinder: Unwinder::default(),
            causes: Rc::clone(&probe.causes),
            root: PathBuf::from("/"),
            snapshots: HashMap::new(),
            cleanup_at: SNAPSHOTS_BEFORE_CLEANUP,
            changed: Vec::new(),
            files: CodeFiles::new(Path::new("/")),
            jits: JitMaps::default(),
            sources: HashMap::new(),
        }
    }

    /// Makes sure that the mappings of a process have been read once, and again if they are older
    /// than `age` and reading them takes no larger part of the time than it may; with an age of zero in any case. Takes hold of
    /// its files too, because the way to them ends with the process.
    pub fn read_mappings(&mut self, pid: u32, age: Duration) {
        let is_fresh =
            |s: &ProcessSnapshot| !age.is_zero() && s.taken.elapsed() < age.max(s.shortest_pause());
        if !self.snapshots.get(&pid).is_some_and(is_fresh) {
            self.read_again(pid);
        }
    }

    /// Reads the mappings of a process. Returns whether there is code of a file that was not there before.
    fn read_again(&mut self, pid: u32) -> bool {
        if pid == 0 {
            return false;
        }
        if self.snapshots.len() >= self.cleanup_at {
            self.forget_ended();
        }
        // The process may be gone: then the mappings that were read before stay.
        let t_ns = monotonic_ns();
        let began = Instant::now();
        let read = maps::read_maps(&self.root, pid);
        let took = began.elapsed();
        let forbidden = read.as_ref().is_err_and(is_forbidden);
        let read = read.unwrap_or_default();
        let first = !self.snapshots.contains_key(&pid);
        let known = self
            .snapshots
            .entry(pid)
            .or_insert_with(|| ProcessSnapshot {
                maps: Vec::new(),
                t_ns,
                taken: began,
                first: began,
                took: Duration::ZERO,
                stranger: false,
                wait: REREAD_BOUNDS[0],
            });
        known.taken = Instant::now();
        if read.is_empty() {
            // The process is reported all the same, with its name, which is all that a user without CAP_SYS_PTRACE sees.
            if forbidden && first {
                self.changed.push(pid);
            }
            return false;
        }
        let stranger = self.maps.is_stranger(&Proc::new(&self.root), pid);
        let stranger = stranger.unwrap_or(known.stranger);
        let other_maps = named_mappings(&read).ne(named_mappings(&known.maps));
        if (other_maps || stranger != known.stranger) && !self.changed.contains(&pid) {
            self.changed.push(pid);
        }
        known.stranger = stranger;
        if other_maps {
            known.t_ns = t_ns;
        }
        let has_new_code = has_new_code(&known.maps, &read);
        if has_new_code {
            known.wait = REREAD_BOUNDS[0];
        }
        for mapping in code_mappings(&read) {
            self.files.hold_file(pid, mapping);
        }
        if read.iter().any(Mapping::is_made_at_run_time) {
            self.jits.follow_process(&self.root, pid);
        }
        known.maps = read;
        known.took = took;
        has_new_code
    }

    /// Reads the mappings of a process again for a frame outside of them, if they are older than `age`.
    fn read_for_frame(&mut self, pid: u32, age: Duration) {
        let is_old = |s: &ProcessSnapshot| s.taken.elapsed() >= age;
        if self.snapshots.get(&pid).is_some_and(is_old)
            && !self.read_again(pid)
            && let Some(known) = self.snapshots.get_mut(&pid)
        {
            known.wait = (known.wait * 2).min(REREAD_BOUNDS[1]);
        }
    }

    /// Makes sure that the mappings of a process have been read, and again if one of these addresses of code is not in them: it may
    /// lie in a library that was loaded since.
    pub(crate) fn cover_addresses(&mut self, pid: u32, addresses: &[u64]) {
        self.read_mappings(pid, Duration::MAX);
        let uncovered = |maps: &[Mapping]| addresses.iter().any(|&a| code_at(maps, a).is_none());
        let incomplete = self.snapshots.get(&pid).filter(|s| uncovered(&s.maps));
        if let Some(again) = incomplete.map(ProcessSnapshot::reread_after) {
            self.read_for_frame(pid, again);
        }
    }

    /// Reads the mappings of a process at growing distances, for files that only hold data, which no stack leads to. To be called
    /// when its stacks are covered or resolved: an exec or dlclose(3) takes the mappings away that these are of.
    pub(crate) fn look_at_data(&mut self, pid: u32) {
        if let Some(known) = self.snapshots.get(&pid) {
            self.read_mappings(pid, reread_age(known.first.elapsed()));
        }
    }

    /// Forgets the mappings of processes that have ended: a build starts thousands.
    fn forget_ended(&mut self) {
        let proc = Proc::new(&self.root);
        let changed = &self.changed;
        self.snapshots.retain(|pid, s| {
            s.taken.elapsed() < LATE_STACKS_TIME || changed.contains(pid) || proc.exists(*pid)
        });
        // They are looked through again only when as many new ones have come.
        self.cleanup_at = SNAPSHOTS_BEFORE_CLEANUP.max(2 * self.snapshots.len());
    }

    /// Names the frames of stacks that were resolved here, or says why they have no names.
    pub fn name_stacks(&self, stacks: &mut [TracedStack]) {
        symbols::name_stack_frames(stacks, &self.files, &self.jits, |stack, i| {
            let sources = self.sources.get(&stack.id);
            sources.and_then(|s| s.get(i)).copied().unwrap_or_default()
        });
    }

    /// How many files and perf maps could not be held open, because this process may not have so many
    /// open: the code of processes that end before it is named may lack names.
    #[must_use]
    pub fn not_held(&self) -> u64 {
        self.files.not_held() + self.jits.not_followed()
    }

    /// Finds the file and offset of every frame.
    pub fn resolve_stacks(&mut self, new: &[NewStack]) -> Vec<TracedStack> {
        new.iter()
            .map(|n| match n.pid {
                None => self.resolve_kernel_stack(n),
                Some(pid) => self.resolve_user_stack(n, pid),
            })
            .collect()
    }

    fn resolve_kernel_stack(&self, new: &NewStack) -> TracedStack {
        let addresses = stack_addresses(&self.maps.stacks, new.kernel_id).unwrap_or_default();
        let names = self.causes.borrow().kernel_symbols(&addresses).ok();
        kernel_stack(new.id, &addresses, names.as_deref())
    }

    fn resolve_user_stack(&mut self, new: &NewStack, pid: u32) -> TracedStack {
        if is_of_piece(new.kernel_id) {
            let followed = self
                .pieces
                .as_ref()
                .and_then(|p| p.take_followed(new.kernel_id));
            // It should be there, but only so many unwound stacks are kept, and each is given once: then nothing is known but that
            // there is a stack.
            return self.followed_stack(new.id, pid, followed.unwrap_or_default());
        }
        let addresses = stack_addresses(&self.maps.stacks, new.kernel_id).unwrap_or_default();
        self.user_stack(new.id, pid, addresses, new.caller)
    }

    /// Unwinds the stacks whose pieces came since the last call. Call it soon: until then the programs use frame pointers.
    ///
    /// # Errors
    ///
    /// If the ring can't be read.
    pub(crate) fn follow_pieces(&mut self, pieces: &StackPieces) -> Result<()> {
        for piece in pieces.take_pieces()? {
            let unwound = self.unwind_piece(&piece);
            if piece.kind == PieceKind::Again {
                pieces.compare_again(&piece, &unwound.addresses);
                continue;
            }
            let is_better = unwound.is_better_than(&piece.walked);
            pieces.keep_followed(piece, &unwound, is_better);
        }
        Ok(())
    }

    /// Unwinds the stacks of the probe's records.
    ///
    /// # Errors
    ///
    /// If the ring can't be read.
    pub fn follow_records(&mut self) -> Result<()> {
        match self.pieces.clone() {
            Some(pieces) => self.follow_pieces(&pieces),
            None => Ok(()),
        }
    }

    /// Finds the file and offset of every frame of an unwound stack.
    pub(crate) fn followed_stack(
        &mut self,
        id: u32,
        pid: u32,
        followed: FollowedStack,
    ) -> TracedStack {
        let mut stack = self.user_stack(id, pid, followed.addresses, followed.caller);
        stack.cut = followed.cut;
        stack
    }

    fn unwind_piece(&mut self, piece: &StackPiece) -> UnwoundStack {
        self.read_mappings(piece.pid, Duration::MAX);
        let mut read_again = None;
        loop {
            let Some(snapshot) = self.snapshots.get(&piece.pid) else {
                return UnwoundStack::default();
            };
            let (maps, taken) = (&snapshot.maps, snapshot.taken);
            let mut unwound = self.unwinder.unwind_piece(maps, &self.files, piece);
            // A walk that leaves the known code may have reached a library that was loaded since the mappings were read.
            let is_code = |&address: &u64| code_at(maps, address).is_some();
            if unwound.addresses.iter().all(is_code) {
                return unwound;
            }
            if let Some(before) = read_again {
                // Unless they could be read again, another piece of this stack may lead farther later.
                unwound.is_certain = taken != before;
                return unwound;
            }
            read_again = Some(taken);
            let again = match snapshot.first.elapsed() < BEGINNING_TIME {
                true => snapshot.reread_after(),
                false => snapshot.reread_after().max(MIN_REREAD_FOR_UNWINDING),
            };
            self.read_for_frame(piece.pid, again);
        }
    }

    /// Finds the file and offset of every frame of a user stack, innermost first, that gets the number
    /// `id`. `caller` is the word on top of the stack, or 0.
    pub fn user_stack(
        &mut self,
        id: u32,
        pid: u32,
        mut addresses: Vec<u64>,
        caller: u64,
    ) -> TracedStack {
        let cut = is_cut(&addresses);
        self.cover_addresses(pid, &addresses);
        let maps = self.snapshots.get(&pid).map_or(&[][..], |s| &s.maps);
        // A wrapper such as libc's madvise() keeps no frame pointer, so the walk misses its caller,
        // whose return address lies on top of the stack. The word is taken only if a call precedes it.
        let missed = caller != 0
            && addresses.get(1) != Some(&caller)
            && code_at(maps, caller).is_some_and(|m| self.follows_call(pid, m, caller));
        if missed {
            addresses.insert(addresses.len().min(1), caller);
        }
        let (frames, sources) = addresses
            .iter()
            .enumerate()
            .map(|(i, &addr)| {
                let module = code_at(maps, addr);
                let jit = module.is_some_and(Mapping::is_made_at_run_time);
                let mark = match module {
                    None if maps.is_empty() => Some(MissingNameReason::Gone),
                    None => Some(MissingNameReason::Unmapped),
                    Some(_) => jit.then_some(MissingNameReason::Jit),
                };
                let frame = StackFrame {
                    addr,
                    symbol: None,
                    module: module.and_then(|m| Some(m.path.as_ref()?.display().to_string())),
                    offset: module
                        .filter(|m| m.is_file())
                        .map(|m| addr - m.start + m.offset),
                    caller: missed && i == 1,
                    mark,
                };
                let file = module.and_then(|m| self.files.file_number(pid, m));
                (frame, FrameSource { file, jit })
            })
            .unzip::<_, _, Vec<StackFrame>, Vec<FrameSource>>();
        let gone = maps.is_empty();
        self.sources.insert(id, sources);
        TracedStack {
            id,
            kind: StackKind::User,
            pid: Some(pid),
            frames,
            cut,
            gone,
        }
    }

    /// The processes whose named mappings are new or have changed since the last call.
    pub fn take_changed_processes(&mut self) -> Vec<TracedProcess> {
        let changed = std::mem::take(&mut self.changed);
        changed
            .into_iter()
            .filter_map(|pid| self.describe_process(pid))
            .collect()
    }

    fn describe_process(&self, pid: u32) -> Option<TracedProcess> {
        let snapshot = self.snapshots.get(&pid)?;
        let proc = Proc::new(&self.root);
        let lossy = |s: std::ffi::OsString| s.to_string_lossy().into_owned();
        Some(TracedProcess {
            pid,
            t_ns: snapshot.t_ns,
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
            modules: named_mappings(&snapshot.maps)
                .map(|m| self.describe_module(pid, m))
                .collect(),
            stranger: snapshot.stranger,
        })
    }

    fn describe_module(&self, pid: u32, m: &Mapping) -> MappedModule {
        let flag = |on, c| if on { c } else { '-' };
        MappedModule {
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
            dev: symbols::device_number(m),
            inode: m.inode,
            build_id: self.files.build_id(pid, m),
        }
    }

    /// Whether the instruction before this address is a call. It is read from the file, so that this also
    /// works when the process is gone.
    fn follows_call(&self, pid: u32, mapping: &Mapping, address: u64) -> bool {
        use std::os::unix::fs::FileExt as _;
        const MAX_CALL_BYTES: usize = 7;
        let offset = address - mapping.start + mapping.offset;
        let Some(from) = offset.checked_sub(MAX_CALL_BYTES as u64) else {
            return false;
        };
        let mut before = [0; MAX_CALL_BYTES];
        let read = |file: &File| file.read_exact_at(&mut before, from);
        let file = self
            .files
            .file_number(pid, mapping)
            .and_then(|n| self.files.held_file(n));
        file.map(read).is_some_and(|r| r.is_ok()) && ends_in_call(&before)
    }
}

/// The time by the clock of the records, CLOCK_MONOTONIC.
pub(crate) fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    u64::try_from(now.tv_sec * 1_000_000_000 + now.tv_nsec).unwrap_or(0)
}

/// Whether a function is on the kernel's way from a tracepoint to the probe, which tells nothing about the culprit.
pub(crate) fn is_probe_function(name: &str) -> bool {
    let begins = ["bpf_", "__bpf_", "__traceiter_"];
    begins.iter().any(|begin| name.starts_with(begin))
}

/// A kernel stack, with the names of its addresses if those could be asked for.
pub(crate) fn kernel_stack(
    id: u32,
    addresses: &[u64],
    names: Option<&[Option<String>]>,
) -> TracedStack {
    TracedStack {
        id,
        kind: StackKind::Kernel,
        frames: kernel_frames(addresses, names),
        cut: is_cut(addresses),
        ..TracedStack::default()
    }
}

/// The frames of a kernel stack, with the names of its addresses if those could be asked for.
fn kernel_frames(addresses: &[u64], names: Option<&[Option<String>]>) -> Vec<StackFrame> {
    let name = |i: usize| names.and_then(|n| n.get(i)?.clone());
    let of_probe = |i: &usize| name(*i).is_some_and(|n| is_probe_function(&n));
    let probe = (0..addresses.len()).take_while(of_probe).count();
    let frame = |(i, &addr): (usize, &u64)| {
        let symbol = name(i);
        // The address may be of a module that has been unloaded meanwhile. Where names could not be looked up at all, the
        // frame gets no mark, because it may well be mapped.
        let unmapped = names.is_some() && symbol.is_none();
        StackFrame {
            addr,
            symbol,
            mark: unmapped.then_some(MissingNameReason::Unmapped),
            ..StackFrame::default()
        }
    };
    addresses
        .iter()
        .enumerate()
        .skip(probe)
        .map(frame)
        .collect()
}

/// The mappings that a report can name: of files, the heap, the main stack. Anonymous ones come and
/// go with every allocation, and a report names the code that unmaps them.
fn named_mappings(maps: &[Mapping]) -> impl Iterator<Item = &Mapping> {
    maps.iter().filter(|m| m.path.is_some())
}

/// The age at which the mappings of a process are read again though they have all of its code: 30 ms, 120 ms, half a second and
/// so on after it was seen first. Most programs map their files when they begin.
fn reread_age(known: Duration) -> Duration {
    (known * 3 / 4).clamp(REREAD_AGES[0], REREAD_AGES[1])
}

/// The mappings of code.
fn code_mappings(maps: &[Mapping]) -> impl Iterator<Item = &Mapping> {
    maps.iter().filter(|m| m.perms.exec)
}

/// Whether there is code of a file now that was not there before. Code that a program makes as it runs comes and goes all the time.
fn has_new_code(before: &[Mapping], now: &[Mapping]) -> bool {
    code_mappings(now)
        .filter(|m| m.path.is_some())
        .any(|m| maps::mapping_at(before, m.start) != Some(m))
}

/// The executable mapping at an address.
fn code_at(maps: &[Mapping], address: u64) -> Option<&Mapping> {
    maps::mapping_at(maps, address).filter(|m| m.perms.exec)
}

/// Whether the file is there, but this user may not read it.
fn is_forbidden(err: &anyhow::Error) -> bool {
    let io = err.downcast_ref::<std::io::Error>();
    io.is_some_and(|err| err.kind() == std::io::ErrorKind::PermissionDenied)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that kernel frames without a name are marked only if names could be asked for.
    #[test]
    fn kernel_frames_are_marked() {
        let some = |name: &str| Some(name.to_owned());
        let names = [some("bpf_prog_x"), some("flush_tlb_mm_range"), None];
        let marks = |names| -> Vec<(u64, Option<String>, Option<MissingNameReason>)> {
            let frames = kernel_frames(&[1, 2, 3], names);
            frames
                .into_iter()
                .map(|f| (f.addr, f.symbol, f.mark))
                .collect()
        };
        let expected = [
            (2, some("flush_tlb_mm_range"), None),
            (3, None, Some(MissingNameReason::Unmapped)),
        ];
        assert_eq!(marks(Some(&names)), expected);
        assert_eq!(marks(None), [1, 2, 3].map(|a| (a, None, None)));
    }

    /// Check that only code of a file counts as new: no code that went, none that is no file's, and no data.
    #[test]
    fn new_code_is_of_a_file() {
        let maps = |text: &str| maps::parse_maps(text.as_bytes());
        let before = "1000-2000 r-xp 00000000 08:01 7 /a\n4000-5000 r-xp 00000000 08:01 8 /b\n";
        let known = maps(before);
        for (now, expected) in [
            (before, false),
            ("1000-2000 r-xp 00000000 08:01 7 /a\n", false),
            (
                &format!("{before}6000-7000 r-xp 00000000 00:00 0 \n"),
                false,
            ),
            (
                &format!("{before}6000-7000 r--p 00000000 08:01 9 /data\n"),
                false,
            ),
            (
                &format!("{before}6000-7000 r-xp 00000000 08:01 9 /c\n"),
                true,
            ),
            ("1000-2000 r-xp 00000000 08:01 9 /c\n", true),
        ] {
            assert_eq!(has_new_code(&known, &maps(now)), expected, "{now}");
        }
    }

    /// Check that a process which is always seen has its mappings read a few times in its first second, and then every five.
    #[test]
    fn mappings_are_read_at_growing_distances() {
        let (mut last, mut reads) = (0, Vec::new());
        for ms in 1..60_000_u64 {
            if Duration::from_millis(ms - last) >= reread_age(Duration::from_millis(ms)) {
                reads.push(ms);
                last = ms;
            }
        }
        assert_eq!(reads[..5], [30, 120, 480, 1_920, 6_920]);
        assert_eq!(reads.len(), 15);
    }

    /// Check that a stack with as many frames as are kept counts as cut, and a shorter one as whole.
    #[test]
    fn deep_stacks_are_cut() {
        assert!(is_cut(&[1; STACK_DEPTH]));
        assert!(!is_cut(&[1; STACK_DEPTH - 1]));
    }
}
