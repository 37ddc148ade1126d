//! The perf maps of programs that make code as they run.
//!
//! The map is `/tmp/perf-PID.map` in the process's own mount namespace, with the number that it has for
//! itself. It grows until the end, and a JVM writes it only then (-XX:+DumpPerfMapAtExit), so the folder
//! is held open while the process lives and the map is read when names are given.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use quell_host::perf_map;
use quell_host::proc::Proc;
use quell_host::status::{self, Status};

use super::{demangle, open};

/// More processes with a JIT than this are not followed: each keeps two files open.
const MAX_FOLLOWED: usize = 128;

/// Where a process's map is, or will be.
#[derive(Debug)]
struct Place {
    status: Status,
    folder: OwnedFd,
    /// As it was when last looked at: its name may be gone by the end.
    map: Option<File>,
}

impl Place {
    fn name(&self) -> PathBuf {
        format!("perf-{}.map", self.status.own_pid).into()
    }

    /// The map, if it is this user's or root's: anybody may put a file into /tmp, and perf(1) asks for
    /// the same.
    fn open(&self) -> Option<File> {
        let file = open::beside(&self.folder, &self.name()).ok()?;
        let owner = file.metadata().ok()?.uid();
        [0, self.status.uid, self.status.euid]
            .contains(&owner)
            .then_some(file)
    }
}

/// The processes that run code of their own making.
#[derive(Debug, Default)]
pub(crate) struct Jits {
    places: HashMap<u32, Place>,
    /// Processes beyond the limit.
    not_followed: HashSet<u32>,
}

impl Jits {
    /// How many processes could not be followed.
    pub(crate) fn not_followed(&self) -> u64 {
        self.not_followed.len() as u64
    }

    /// Notes where the map of a process is. It must still live.
    pub(crate) fn see(&mut self, root: &Path, pid: u32) {
        if let Some(place) = self.places.get_mut(&pid) {
            place.map = place.open().or(place.map.take());
            return;
        }
        if self.places.len() >= MAX_FOLLOWED {
            self.not_followed.insert(pid);
            return;
        }
        let proc = Proc::new(root);
        let text = std::fs::read(proc.file(pid, "status")).unwrap_or_default();
        let (Some(status), Ok(folder)) = (
            status::parse(&text),
            // its own /tmp, also where that is an absolute symlink
            open::folder(&proc.file(proc.living(pid), "root"))
                .and_then(|root| open::folder_within(root, Path::new("tmp"))),
        ) else {
            return;
        };
        let mut place = Place {
            status,
            folder,
            map: None,
        };
        place.map = place.open();
        self.places.insert(pid, place);
    }

    /// The names at addresses of a process, which must be sorted.
    pub(crate) fn names(&self, pid: u32, addresses: &[u64]) -> Vec<Option<String>> {
        let none = || vec![None; addresses.len()];
        let Some(place) = self.places.get(&pid) else {
            return none();
        };
        let again = place.open();
        let Some(mut map) = again.as_ref().or(place.map.as_ref()) else {
            return none();
        };
        // it may have been looked at before
        if std::io::Seek::rewind(&mut map).is_err() {
            return none();
        }
        let clean = |name: Option<String>| Some(demangle::clean(&name?));
        perf_map::names(map, addresses)
            .into_iter()
            .map(clean)
            .collect()
    }
}
