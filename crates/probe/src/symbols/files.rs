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

use quell_event::trace::{MappedModule, MissingNameReason};
use quell_host::contents::Contents;
use quell_host::functions;
use quell_host::maps::Mapping;
use quell_host::proc::Proc;

use super::identity::{self, FileIdentity, FileStamp};
use super::open_files;
use crate::kernel::MIN_OPEN_FILES;

/// The most files that are held open. A host with a hundred containers runs code from about so many.
const MAX_HELD_FILES: u64 = 4096;

/// How many files may be held open, of `limit` that this process may open: half of those that the probes leave, because two
/// probes may name code (`top`).
fn files_to_hold(limit: u64) -> u64 {
    MAX_HELD_FILES.min(limit.saturating_sub(MIN_OPEN_FILES) / 2)
}

/// A file's times are behind the clock by up to a tick (current_time() in fs/inode.c, up to Linux 6.12),
/// the longest of which is this, with HZ=100.
const MAX_KERNEL_TICK: Duration = Duration::from_millis(10);

/// A file that code was seen to run from.
#[derive(Debug)]
struct KnownFile {
    path: PathBuf,
    dev: u64,
    inode: u64,
    build_id: Option<String>,
    /// Size and time of the file when it was opened, if it could be.
    stamp: Option<FileStamp>,
    /// When its mapping was seen; unknown for a file out of a trace.
    seen: Option<SystemTime>,
    /// A process that has it mapped.
    pid: u32,
    held: Option<File>,
}

/// The numbers of files by device and inode, of which there may be several: file systems of containers may number their files
/// alike.
#[derive(Debug, Default)]
struct FilesByInode(HashMap<(u64, u64), Vec<u32>>);

impl FilesByInode {
    /// Enters a file, if its contents can tell it from others.
    fn enter_file(&mut self, number: u32, known: &KnownFile) {
        if known.content_marks() != (None, None) {
            let numbers = self.0.entry((known.dev, known.inode)).or_default();
            numbers.push(number);
        }
    }

    /// The numbers of the files that may be the same as this one.
    fn candidates(&self, known: &KnownFile) -> impl Iterator<Item = u32> {
        let numbers = self.0.get(&(known.dev, known.inode));
        numbers.into_iter().flatten().copied()
    }
}

/// Every file that code was seen to run from.
#[derive(Debug)]
pub(crate) struct CodeFiles {
    root: PathBuf,
    known: Vec<KnownFile>,
    by_identity: HashMap<FileIdentity, u32>,
    by_inode: FilesByInode,
    room: u64,
    /// How many could not be held for want of room.
    not_held: u64,
}

impl CodeFiles {
    /// No files yet. `root` is that of this machine, or of a test.
    pub(crate) fn new(root: &Path) -> Self {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        Self {
            root: root.to_owned(),
            known: Vec::new(),
            by_identity: HashMap::new(),
            by_inode: FilesByInode::default(),
            room: limit.current.map_or(MAX_HELD_FILES, files_to_hold),
            not_held: 0,
        }
    }

    /// The number of the file that is mapped there, which is opened if it is new. The process must
    /// still live.
    pub(crate) fn hold_file(&mut self, pid: u32, mapping: &Mapping) -> Option<u32> {
        let path = mapping.path.as_ref().filter(|_| mapping.is_file())?;
        let before = self.file_number(pid, mapping);
        // A file that could not be opened before may be opened now, or by way of another process.
        if before.is_some_and(|n| {
            self.room == 0 || self.known_file(n).is_some_and(|k| k.stamp.is_some())
        }) {
            return before;
        }
        let file = self.open_mapped_file(pid, mapping, path);
        if before.is_some() && file.is_none() {
            return before;
        }
        let mut known = KnownFile {
            path: path.clone(),
            dev: device_number(mapping),
            inode: mapping.inode,
            build_id: file.as_ref().and_then(|f| read_build_id(f).ok()?),
            stamp: file
                .as_ref()
                .and_then(|f| Some(FileStamp::of(&f.metadata().ok()?))),
            seen: Some(SystemTime::now()),
            pid,
            held: None,
        };
        if let Some(number) = self.find_same(&known) {
            self.by_identity.insert(known.file_identity(), number);
            return Some(number);
        }
        known.held = file.filter(|_| self.room > 0);
        match known.held {
            Some(_) => self.room -= 1,
            None if self.room == 0 => self.not_held += 1,
            None => {}
        }
        Some(match before {
            Some(number) => self.replace_unopened(number, known),
            None => self.add_file(known),
        })
    }

    /// Puts a file that could be opened now in the place of one that could not before. Frames keep the number.
    fn replace_unopened(&mut self, number: u32, mut known: KnownFile) -> u32 {
        if let Some(unopened) = self.known.get_mut(number as usize) {
            known.seen = unopened.seen;
            self.by_inode.enter_file(number, &known);
            *unopened = known;
        }
        number
    }

    /// The number of a file that a trace knows of.
    pub(crate) fn recall_file(&mut self, pid: u32, module: &MappedModule) -> u32 {
        let known = KnownFile {
            path: PathBuf::from(&module.path),
            dev: module.dev,
            inode: module.inode,
            build_id: module.build_id.clone(),
            stamp: None,
            seen: None,
            pid,
            held: None,
        };
        let before = self.by_identity.get(&known.file_identity()).copied();
        let before = before.filter(|n| {
            self.known_file(*n)
                .is_some_and(|k| k.build_id == known.build_id)
        });
        match before.or_else(|| self.find_same(&known)) {
            Some(number) => number,
            None => self.add_file(known),
        }
    }

    /// The number of a known file that is the same, as far as can be told.
    fn find_same(&self, new: &KnownFile) -> Option<u32> {
        self.by_inode.candidates(new).find(|number| {
            self.known_file(*number).is_some_and(|old| {
                old.path == new.path
                    && identity::is_same_file(old.content_marks(), new.content_marks())
            })
        })
    }

    fn add_file(&mut self, known: KnownFile) -> u32 {
        let number = u32::try_from(self.known.len()).unwrap_or(u32::MAX);
        self.by_identity.insert(known.file_identity(), number);
        self.by_inode.enter_file(number, &known);
        self.known.push(known);
        number
    }

    /// The number of a file that was seen before.
    pub(crate) fn file_number(&self, pid: u32, mapping: &Mapping) -> Option<u32> {
        let path = mapping.path.as_ref()?;
        let identity = FileIdentity::new(pid, device_number(mapping), mapping.inode, path);
        self.by_identity.get(&identity).copied()
    }

    /// The build id of a mapped file.
    pub(crate) fn build_id(&self, pid: u32, mapping: &Mapping) -> Option<String> {
        self.known_file(self.file_number(pid, mapping)?)?
            .build_id
            .clone()
    }

    /// The file, if it is held.
    pub(crate) fn held_file(&self, number: u32) -> Option<&File> {
        self.known_file(number)?.held.as_ref()
    }

    /// Where the process saw the file.
    pub(crate) fn file_path(&self, number: u32) -> &Path {
        self.known_file(number).map_or(Path::new(""), |k| &k.path)
    }

    /// Folders that may stand for `/` where the file comes from: the process's, if it lives, and ours.
    pub(crate) fn root_folders(&self, number: u32) -> Vec<OwnedFd> {
        let pid = self.known_file(number).map_or(0, |k| k.pid);
        let theirs = self.process_folder(pid).join("root");
        let both = [theirs.as_path(), &self.root];
        both.into_iter()
            .filter_map(|p| open_files::open_folder(p).ok())
            .collect()
    }

    /// The contents of the file that was mapped, and of no other at its path.
    ///
    /// # Errors
    ///
    /// The mark for its frames.
    pub(crate) fn file_contents(&self, number: u32) -> Result<Contents, MissingNameReason> {
        let known = self
            .known_file(number)
            .ok_or(MissingNameReason::Unreadable)?;
        if let Some(file) = &known.held {
            let same_file = file
                .try_clone()
                .map_err(|_| MissingNameReason::Unreadable)?;
            let data =
                open_files::whole_contents(same_file).map_err(|_| MissingNameReason::Unreadable)?;
            // The file may have been written over in place, against all custom.
            let same = functions::build_id(&data) == known.build_id;
            return if same {
                Ok(data)
            } else {
                Err(MissingNameReason::Replaced)
            };
        }
        let mut mark = MissingNameReason::Unreadable;
        for root in self.root_folders(number) {
            let Ok(file) = open_files::open_within(root, &known.path) else {
                continue;
            };
            let (Ok(meta), Ok(data)) = (file.metadata(), open_files::whole_contents(file)) else {
                continue;
            };
            match known.is_same(&meta, &data) {
                Some(true) => return Ok(data),
                Some(false) => mark = MissingNameReason::Replaced,
                None => {}
            }
        }
        Err(mark)
    }

    /// How many files could not be held open for want of room.
    pub(crate) fn not_held(&self) -> u64 {
        self.not_held
    }

    fn known_file(&self, number: u32) -> Option<&KnownFile> {
        self.known.get(usize::try_from(number).ok()?)
    }

    /// The folder of a process that shows its memory and its root.
    fn process_folder(&self, pid: u32) -> PathBuf {
        let living = Proc::new(&self.root).living_thread(pid);
        self.root.join(format!("proc/{living}"))
    }

    /// Opens the file behind a mapping.
    ///
    /// Its path is the first way. To look a link of map_files up, the kernel takes the lock of the process's address space
    /// several times (fs/proc/base.c: map_files_d_revalidate, proc_map_files_lookup, map_files_get_link), and if this thread is preempted
    /// meanwhile, the page faults and mmap(2) of the process wait for it. The path leads to the same file as long as the file has
    /// that name and the device numbers its files by itself; else only the link tells.
    fn open_mapped_file(&self, pid: u32, mapping: &Mapping, path: &Path) -> Option<File> {
        let process = self.process_folder(pid);
        let by_path = || open_same_file(&process, mapping, path);
        let by_link = || {
            let link = process.join("map_files").join(mapping.map_file_name());
            open_files::open_mapped(&link).ok()
        };
        if is_told_by_path(mapping) {
            return by_path().or_else(by_link);
        }
        // Without the right to follow the link, the path is better than nothing.
        by_link().or_else(by_path)
    }
}

/// Whether the path of a mapping leads to its file and to no other with the same device and inode.
fn is_told_by_path(mapping: &Mapping) -> bool {
    !mapping.deleted && is_named_device(device_number(mapping))
}

/// Opens the file at a path as the process sees it, if it is the mapped one.
fn open_same_file(process: &Path, mapping: &Mapping, path: &Path) -> Option<File> {
    let root = open_files::open_folder(&process.join("root")).ok()?;
    let file = open_files::open_within(root, path).ok()?;
    let meta = file.metadata().ok()?;
    is_same_inode(device_number(mapping), mapping.inode, &meta).then_some(file)
}

impl KnownFile {
    fn file_identity(&self) -> FileIdentity {
        FileIdentity::new(self.pid, self.dev, self.inode, &self.path)
    }

    fn content_marks(&self) -> (Option<&str>, Option<FileStamp>) {
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
            return Some(stamp == FileStamp::of(meta));
        }
        // The mapped file was never opened, and a new file may have its inode; this one is the same only if nothing has
        // happened to it since.
        let done = FileStamp::change_time(meta).and_then(|t| t.checked_add(MAX_KERNEL_TICK));
        let unchanged = done.zip(self.seen).is_some_and(|(done, seen)| done < seen);
        unchanged.then_some(true)
    }
}

/// The device as `stat` numbers it.
pub(crate) fn device_number(mapping: &Mapping) -> u64 {
    libc::makedev(mapping.dev.0, mapping.dev.1)
}

fn read_build_id(file: &File) -> io::Result<Option<String>> {
    Ok(functions::build_id(&open_files::header_contents(file)?))
}

/// Btrfs and overlayfs tell stat(2) another device than /proc/PID/maps (both without a major number),
/// so between such the inode alone decides.
fn is_same_inode(dev: u64, inode: u64, meta: &Metadata) -> bool {
    let devices = dev == meta.dev() || !(is_named_device(dev) || is_named_device(meta.dev()));
    inode != 0 && inode == meta.ino() && devices
}

/// Whether a device has a major number, and with it one meaning in stat(2) and in /proc/PID/maps.
fn is_named_device(dev: u64) -> bool {
    libc::major(dev) != 0
}

#[cfg(test)]
#[path = "files_tests.rs"]
mod tests;
