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

use quell_event::trace::{Mark, Module};
use quell_host::contents::Contents;
use quell_host::functions;
use quell_host::maps::Mapping;

use super::open;

/// So many are held open at most, and never more than half of what this process may open: the rest of
/// quell needs some too. A host with a hundred containers runs code from about as many files each has.
const MAX_HELD: u64 = 4096;

/// What is known of a file.
#[derive(Debug)]
struct Known {
    path: PathBuf,
    dev: u64,
    inode: u64,
    build_id: Option<String>,
    /// A process that has it mapped.
    pid: u32,
    held: Option<File>,
}

/// Every file that code was seen to run from.
#[derive(Debug)]
pub(crate) struct Files {
    root: PathBuf,
    known: Vec<Known>,
    by_identity: HashMap<(u64, u64), u32>,
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
            room: limit.current.map_or(MAX_HELD, |n| MAX_HELD.min(n / 2)),
            not_held: 0,
        }
    }

    /// The number of the file that is mapped there, which is opened if it is new. The process must
    /// still live.
    pub(crate) fn see(&mut self, pid: u32, mapping: &Mapping) -> Option<u32> {
        let path = mapping.path.as_ref().filter(|_| mapping.is_file())?;
        let identity = (device(mapping), mapping.inode);
        if let Some(&number) = self.by_identity.get(&identity) {
            return Some(number);
        }
        let file = self.open(pid, mapping, path);
        let build_id = file.as_ref().and_then(|f| build_id(f).ok()?);
        let held = file.filter(|_| self.room > 0);
        match held {
            Some(_) => self.room -= 1,
            None if self.room == 0 => self.not_held += 1,
            None => {}
        }
        Some(self.add(Known {
            path: path.clone(),
            dev: identity.0,
            inode: identity.1,
            build_id,
            pid,
            held,
        }))
    }

    /// The number of a file that a trace knows of.
    pub(crate) fn recall(&mut self, pid: u32, module: &Module) -> u32 {
        if let Some(&number) = self.by_identity.get(&(module.dev, module.inode))
            && self
                .get(number)
                .is_some_and(|k| k.build_id == module.build_id)
        {
            return number;
        }
        self.add(Known {
            path: PathBuf::from(&module.path),
            dev: module.dev,
            inode: module.inode,
            build_id: module.build_id.clone(),
            pid,
            held: None,
        })
    }

    fn add(&mut self, known: Known) -> u32 {
        let number = u32::try_from(self.known.len()).unwrap_or(u32::MAX);
        self.by_identity.insert((known.dev, known.inode), number);
        self.known.push(known);
        number
    }

    /// The number of a file that was seen before.
    pub(crate) fn number(&self, mapping: &Mapping) -> Option<u32> {
        let identity = (device(mapping), mapping.inode);
        self.by_identity.get(&identity).copied()
    }

    /// The build id of a mapped file.
    pub(crate) fn build_id(&self, mapping: &Mapping) -> Option<String> {
        self.get(self.number(mapping)?)?.build_id.clone()
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
        let theirs = self.root.join(format!("proc/{pid}/root"));
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
            mark = Mark::Replaced;
            if let (Ok(meta), Ok(data)) = (file.metadata(), open::contents(file))
                && known.is_same(&meta, &data)
            {
                return Ok(data);
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

    fn open(&self, pid: u32, mapping: &Mapping, path: &Path) -> Option<File> {
        let process = self.root.join(format!("proc/{pid}"));
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
    /// Whether this is the file that was mapped, as far as can be told.
    fn is_same(&self, meta: &Metadata, data: &Contents) -> bool {
        match &self.build_id {
            Some(id) => functions::build_id(data).as_ref() == Some(id),
            None => is_same_inode(self.dev, self.inode, meta),
        }
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
mod tests {
    use super::*;
    use quell_host::maps;
    use std::os::unix::fs::FileExt as _;

    /// The mapping of this program's own code.
    fn own() -> Mapping {
        let maps = maps::read(Path::new("/"), std::process::id()).unwrap();
        maps::at(&maps, own as *const () as u64).unwrap().clone()
    }

    fn starts_as_elf(file: &File) -> bool {
        let mut magic = [0; 4];
        file.read_exact_at(&mut magic, 0).is_ok() && functions::is_elf(&magic[..])
    }

    /// Check that a mapped file is opened once, with its build id, and through its name where the
    /// mapping can't be followed.
    #[test]
    fn files_are_held() {
        let (pid, mapping) = (std::process::id(), own());
        let mut files = Files::new(Path::new("/"));
        let number = files.see(pid, &mapping).unwrap();
        assert!(starts_as_elf(files.held(number).unwrap()));
        assert_eq!(files.build_id(&mapping).map(|id| id.len()), Some(40));
        assert_eq!(
            (files.see(pid, &mapping), files.known.len()),
            (Some(number), 1)
        );
        assert!(files.contents(number).is_ok());
        // no such mapping: its link in map_files is missing
        let mut elsewhere = mapping.clone();
        elsewhere.start += 0x10_0000_0000;
        elsewhere.end += 0x10_0000_0000;
        let mut files = Files::new(Path::new("/"));
        let number = files.see(pid, &elsewhere).unwrap();
        assert!(starts_as_elf(files.held(number).unwrap()));
    }

    /// Check that another file under the same name is not taken for the one that was mapped.
    #[test]
    fn others_are_not_taken() {
        let mut mapping = own();
        mapping.start += 0x10_0000_0000;
        mapping.inode += 1;
        let mut files = Files::new(Path::new("/"));
        let number = files.see(std::process::id(), &mapping).unwrap();
        assert!(files.held(number).is_none());
        assert_eq!(files.contents(number).err(), Some(Mark::Replaced));
        mapping.inode += 1;
        mapping.path = Some("/no/such/file".into());
        let number = files.see(std::process::id(), &mapping).unwrap();
        assert_eq!(files.contents(number).err(), Some(Mark::Unreadable));
    }

    /// Check that beyond the limit files are counted, not held, and still named while they are there.
    #[test]
    fn the_limit_is_kept() {
        let mut files = Files::new(Path::new("/"));
        files.room = 0;
        let number = files.see(std::process::id(), &own()).unwrap();
        assert_eq!((files.not_held(), files.held(number).is_none()), (1, true));
        assert!(files.contents(number).is_ok());
        files.see(std::process::id(), &own());
        assert_eq!(files.not_held(), 1);
    }
}
