//! The files that code runs from, held open while it runs.
//!
//! A path in /proc/PID/maps is the process's own: in a container it names a file of the container, and
//! when the process ends the way there ends with it. So each file is opened once, while the process
//! lives, through the mapping itself.

use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use quell_event::trace::{Mark, Module};
use quell_host::contents::Contents;
use quell_host::functions;
use quell_host::maps::Mapping;
use quell_host::proc::Proc;

use super::identity::{self, Identity, Stamp};
use super::open;
use crate::kernel::FILES;

/// So many are held open at most. A host with a hundred containers runs code from about as many files each has.
const MAX_HELD: u64 = 4096;

/// How many of the files that this process may open: half of what the probes leave, for there may be two
/// that name code (`top`).
fn room(limit: u64) -> u64 {
    MAX_HELD.min(limit.saturating_sub(FILES) / 2)
}

/// A file's times are behind the clock by up to a tick (current_time() in fs/inode.c, up to Linux 6.12),
/// the longest of which is this, with HZ=100.
const TICK: Duration = Duration::from_millis(10);

/// What is known of a file.
#[derive(Debug)]
struct Known {
    path: PathBuf,
    dev: u64,
    inode: u64,
    build_id: Option<String>,
    /// As it was when it was opened, if it could be.
    stamp: Option<Stamp>,
    /// When its mapping was seen; unknown of what a trace tells.
    seen: Option<SystemTime>,
    /// A process that has it mapped.
    pid: u32,
    held: Option<File>,
}

/// Files by device and inode. Containers' file systems may number theirs alike.
#[derive(Debug, Default)]
struct Alike(HashMap<(u64, u64), Vec<u32>>);

impl Alike {
    /// Enters a file, if its contents can tell it from others.
    fn enter(&mut self, number: u32, known: &Known) {
        if known.contents() != (None, None) {
            let numbers = self.0.entry((known.dev, known.inode)).or_default();
            numbers.push(number);
        }
    }

    /// Those that may be the same file.
    fn of(&self, known: &Known) -> impl Iterator<Item = u32> {
        let numbers = self.0.get(&(known.dev, known.inode));
        numbers.into_iter().flatten().copied()
    }
}

/// Every file that code was seen to run from.
#[derive(Debug)]
pub(crate) struct Files {
    root: PathBuf,
    known: Vec<Known>,
    by_identity: HashMap<Identity, u32>,
    alike: Alike,
    room: u64,
    /// How many could not be held for want of room.
    not_held: u64,
}

impl Files {
    /// Under the root of this machine, or of a test.
    pub(crate) fn new(root: &Path) -> Self {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        Self {
            root: root.to_owned(),
            known: Vec::new(),
            by_identity: HashMap::new(),
            alike: Alike::default(),
            room: limit.current.map_or(MAX_HELD, room),
            not_held: 0,
        }
    }

    /// The number of the file that is mapped there, which is opened if it is new. The process must
    /// still live.
    pub(crate) fn see(&mut self, pid: u32, mapping: &Mapping) -> Option<u32> {
        let path = mapping.path.as_ref().filter(|_| mapping.is_file())?;
        let before = self.number(pid, mapping);
        // one that could not be opened may be by way of another process, or now
        if before.is_some_and(|n| self.room == 0 || self.get(n).is_some_and(|k| k.stamp.is_some()))
        {
            return before;
        }
        let file = self.open(pid, mapping, path);
        if before.is_some() && file.is_none() {
            return before;
        }
        let mut known = Known {
            path: path.clone(),
            dev: device(mapping),
            inode: mapping.inode,
            build_id: file.as_ref().and_then(|f| build_id(f).ok()?),
            stamp: file
                .as_ref()
                .and_then(|f| Some(Stamp::of(&f.metadata().ok()?))),
            seen: Some(SystemTime::now()),
            pid,
            held: None,
        };
        if let Some(number) = self.same_as(&known) {
            self.by_identity.insert(known.identity(), number);
            return Some(number);
        }
        known.held = file.filter(|_| self.room > 0);
        match known.held {
            Some(_) => self.room -= 1,
            None if self.room == 0 => self.not_held += 1,
            None => {}
        }
        Some(match before {
            Some(number) => self.replace(number, known),
            None => self.add(known),
        })
    }

    /// What could not be opened before has been now. Frames keep the number.
    fn replace(&mut self, number: u32, mut known: Known) -> u32 {
        if let Some(unopened) = self.known.get_mut(number as usize) {
            known.seen = unopened.seen;
            self.alike.enter(number, &known);
            *unopened = known;
        }
        number
    }

    /// The number of a file that a trace knows of.
    pub(crate) fn recall(&mut self, pid: u32, module: &Module) -> u32 {
        let known = Known {
            path: PathBuf::from(&module.path),
            dev: module.dev,
            inode: module.inode,
            build_id: module.build_id.clone(),
            stamp: None,
            seen: None,
            pid,
            held: None,
        };
        let before = self.by_identity.get(&known.identity()).copied();
        let before = before.filter(|n| self.get(*n).is_some_and(|k| k.build_id == known.build_id));
        match before.or_else(|| self.same_as(&known)) {
            Some(number) => number,
            None => self.add(known),
        }
    }

    /// The number of one that is the same, as far as can be told.
    fn same_as(&self, new: &Known) -> Option<u32> {
        self.alike.of(new).find(|number| {
            self.get(*number).is_some_and(|old| {
                old.path == new.path && identity::same(old.contents(), new.contents())
            })
        })
    }

    fn add(&mut self, known: Known) -> u32 {
        let number = u32::try_from(self.known.len()).unwrap_or(u32::MAX);
        self.by_identity.insert(known.identity(), number);
        self.alike.enter(number, &known);
        self.known.push(known);
        number
    }

    /// The number of a file that was seen before.
    pub(crate) fn number(&self, pid: u32, mapping: &Mapping) -> Option<u32> {
        let path = mapping.path.as_ref()?;
        let identity = Identity::new(pid, device(mapping), mapping.inode, path);
        self.by_identity.get(&identity).copied()
    }

    /// The build id of a mapped file.
    pub(crate) fn build_id(&self, pid: u32, mapping: &Mapping) -> Option<String> {
        self.get(self.number(pid, mapping)?)?.build_id.clone()
    }

    /// The file, if it is held.
    pub(crate) fn held(&self, number: u32) -> Option<&File> {
        self.get(number)?.held.as_ref()
    }

    /// Where the process saw it.
    pub(crate) fn path(&self, number: u32) -> &Path {
        self.get(number).map_or(Path::new(""), |k| &k.path)
    }

    /// Folders that may stand for `/` where the file comes from: the process's, if it lives, and ours.
    pub(crate) fn roots(&self, number: u32) -> Vec<OwnedFd> {
        let pid = self.get(number).map_or(0, |k| k.pid);
        let theirs = self.process(pid).join("root");
        let both = [theirs.as_path(), &self.root];
        both.into_iter()
            .filter_map(|p| open::folder(p).ok())
            .collect()
    }

    /// The contents of a file: of the one that was mapped, or none.
    ///
    /// # Errors
    ///
    /// The mark for its frames.
    pub(crate) fn contents(&self, number: u32) -> Result<Contents, Mark> {
        let known = self.get(number).ok_or(Mark::Unreadable)?;
        if let Some(file) = &known.held {
            let same_file = file.try_clone().map_err(|_| Mark::Unreadable)?;
            let data = open::contents(same_file).map_err(|_| Mark::Unreadable)?;
            // written over in place, against all custom
            let same = functions::build_id(&data) == known.build_id;
            return if same { Ok(data) } else { Err(Mark::Replaced) };
        }
        let mut mark = Mark::Unreadable;
        for root in self.roots(number) {
            let Ok(file) = open::within(root, &known.path) else {
                continue;
            };
            let (Ok(meta), Ok(data)) = (file.metadata(), open::contents(file)) else {
                continue;
            };
            match known.is_same(&meta, &data) {
                Some(true) => return Ok(data),
                Some(false) => mark = Mark::Replaced,
                None => {}
            }
        }
        Err(mark)
    }

    /// How many files could not be held open for want of room.
    pub(crate) fn not_held(&self) -> u64 {
        self.not_held
    }

    fn get(&self, number: u32) -> Option<&Known> {
        self.known.get(usize::try_from(number).ok()?)
    }

    /// The folder of a process that shows its memory and its root.
    fn process(&self, pid: u32) -> PathBuf {
        let living = Proc::new(&self.root).living(pid);
        self.root.join(format!("proc/{living}"))
    }

    fn open(&self, pid: u32, mapping: &Mapping, path: &Path) -> Option<File> {
        let process = self.process(pid);
        let link = process.join("map_files").join(mapping.map_file_name());
        open::mapped(&link).ok().or_else(|| {
            // without the right to that: by its name, as the process sees it
            let root = open::folder(&process.join("root")).ok()?;
            let file = open::within(root, path).ok()?;
            let meta = file.metadata().ok()?;
            is_same_inode(device(mapping), mapping.inode, &meta).then_some(file)
        })
    }
}

impl Known {
    fn identity(&self) -> Identity {
        Identity::new(self.pid, self.dev, self.inode, &self.path)
    }

    fn contents(&self) -> (Option<&str>, Option<Stamp>) {
        (self.build_id.as_deref(), self.stamp)
    }

    /// Whether this is the file that was mapped, if that can be told.
    fn is_same(&self, meta: &Metadata, data: &Contents) -> Option<bool> {
        if self.build_id.is_some() {
            return Some(functions::build_id(data) == self.build_id);
        }
        if !is_same_inode(self.dev, self.inode, meta) {
            return Some(false);
        }
        if let Some(stamp) = self.stamp {
            return Some(stamp == Stamp::of(meta));
        }
        // It was never opened, and a new file may have the inode of the old one, unless nothing has
        // happened to this one since.
        let done = Stamp::changed(meta).and_then(|t| t.checked_add(TICK));
        let unchanged = done.zip(self.seen).is_some_and(|(done, seen)| done < seen);
        unchanged.then_some(true)
    }
}

/// The device as `stat` numbers it.
pub(crate) fn device(mapping: &Mapping) -> u64 {
    libc::makedev(mapping.dev.0, mapping.dev.1)
}

fn build_id(file: &File) -> io::Result<Option<String>> {
    Ok(functions::build_id(&open::headers(file)?))
}

/// Btrfs and overlayfs tell stat(2) another device than /proc/PID/maps (both without a major number),
/// so between such the inode alone decides.
fn is_same_inode(dev: u64, inode: u64, meta: &Metadata) -> bool {
    let unnamed = |dev| libc::major(dev) == 0;
    let devices = dev == meta.dev() || (unnamed(dev) && unnamed(meta.dev()));
    inode != 0 && inode == meta.ino() && devices
}

#[cfg(test)]
#[path = "files_tests.rs"]
mod tests;
