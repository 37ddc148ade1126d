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

use super::{demangle, open_files};

/// The most processes with a JIT that are followed: each keeps two files open.
const MAX_FOLLOWED_JITS: usize = 128;

/// Where a process's map is, or will be.
#[derive(Debug)]
struct PerfMapPlace {
    status: Status,
    folder: OwnedFd,
    /// The map when it was opened last: its name may be gone by the end.
    map: Option<File>,
}

impl PerfMapPlace {
    fn map_name(&self) -> PathBuf {
        format!("perf-{}.map", self.status.own_pid).into()
    }

    /// The map, if it is this user's or root's: anybody may put a file into /tmp, and perf(1) asks for
    /// the same.
    fn open_perf_map(&self) -> Option<File> {
        let file = open_files::open_beside(&self.folder, &self.map_name()).ok()?;
        let owner = file.metadata().ok()?.uid();
        [0, self.status.uid, self.status.euid]
            .contains(&owner)
            .then_some(file)
    }
}

/// The maps of the processes that run code of their own making.
#[derive(Debug, Default)]
pub(crate) struct JitMaps {
    places: HashMap<u32, PerfMapPlace>,
    /// Processes beyond the limit.
    not_followed: HashSet<u32>,
}

impl JitMaps {
    /// How many processes could not be followed.
    pub(crate) fn not_followed(&self) -> u64 {
        self.not_followed.len() as u64
    }

    /// Opens the folder of a process's map, and the map if it is there. The process must still live.
    pub(crate) fn follow_process(&mut self, root: &Path, pid: u32) {
        if let Some(place) = self.places.get_mut(&pid) {
            place.map = place.open_perf_map().or(place.map.take());
            return;
        }
        if self.places.len() >= MAX_FOLLOWED_JITS {
            self.not_followed.insert(pid);
            return;
        }
        let proc = Proc::new(root);
        let text = std::fs::read(proc.path_of(pid, "status")).unwrap_or_default();
        let (Some(status), Ok(folder)) = (
            status::parse_status(&text),
            // The folder is the process's own /tmp, also where that is an absolute symlink.
            open_files::open_folder(&proc.path_of(proc.living_thread(pid), "root"))
                .and_then(|root| open_files::open_folder_within(root, Path::new("tmp"))),
        ) else {
            return;
        };
        let mut place = PerfMapPlace {
            status,
            folder,
            map: None,
        };
        place.map = place.open_perf_map();
        self.places.insert(pid, place);
    }

    /// The names at addresses of a process, which must be sorted.
    pub(crate) fn names_at(&self, pid: u32, addresses: &[u64]) -> Vec<Option<String>> {
        let none = || vec![None; addresses.len()];
        let Some(place) = self.places.get(&pid) else {
            return none();
        };
        let again = place.open_perf_map();
        let Some(mut map) = again.as_ref().or(place.map.as_ref()) else {
            return none();
        };
        // It may have been read before.
        if std::io::Seek::rewind(&mut map).is_err() {
            return none();
        }
        let clean = |name: Option<String>| Some(demangle::clean_name(&name?));
        perf_map::find_function_names(map, addresses)
            .into_iter()
            .map(clean)
            .collect()
    }
}
