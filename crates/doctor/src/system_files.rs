//! The files of a machine, under a root that tests replace.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use quell_host::under;

use crate::file_value::FileValue;
use crate::finding::FileReading;

/// Reads files by their absolute paths, and tells a file that is missing from one that can't be seen.
pub struct SystemFiles {
    root: PathBuf,
}

impl SystemFiles {
    /// The files below this root: `/` for this machine.
    pub(crate) fn new(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
        }
    }

    /// A file, by its absolute path.
    #[must_use]
    pub fn file(&self, path: &str) -> FileValue {
        match std::fs::read(under(&self.root, Path::new(path))) {
            Ok(bytes) => FileValue::Text(String::from_utf8_lossy(&bytes).trim_end().to_owned()),
            Err(err) if err.kind() == ErrorKind::NotFound && self.is_visible(path) => {
                FileValue::Absent
            }
            Err(err) if err.kind() == ErrorKind::NotFound => {
                FileValue::Refused("not visible here".to_owned())
            }
            Err(err) => FileValue::Refused(err.to_string()),
        }
    }

    /// In a container /sys and /proc/sys may be masked: then a file that is missing tells nothing. A file that every
    /// kernel has tells whether they are.
    fn is_visible(&self, path: &str) -> bool {
        let sure = match path {
            p if p.starts_with("/proc/sys/") => "/proc/sys/kernel/osrelease",
            p if p.starts_with("/proc/") => "/proc/self",
            p if p.starts_with("/sys/devices/system/cpu/") => "/sys/devices/system/cpu/online",
            p if p.starts_with("/sys/kernel/debug/") => "/sys/kernel/debug/sched",
            p if p.starts_with("/sys/") => "/sys/kernel/mm",
            _ => return true,
        };
        under(&self.root, Path::new(sure)).exists()
    }

    /// A file, with the part of it that goes into the finding.
    pub(crate) fn read(&self, path: &str) -> (FileValue, FileReading) {
        let value = self.file(path);
        let read = FileReading::new(path, value.shortened());
        (value, read)
    }

    /// The files in a folder with a name that passes, by their absolute paths, sorted.
    pub(crate) fn files_in(&self, folder: &str, passes: impl Fn(&str) -> bool) -> Vec<String> {
        let entries = std::fs::read_dir(under(&self.root, Path::new(folder)));
        let names = entries.into_iter().flatten().flatten();
        let mut found: Vec<String> = names
            .filter_map(|e| e.file_name().into_string().ok())
            .filter(|name| passes(name))
            .map(|name| format!("{folder}/{name}"))
            .collect();
        found.sort();
        found
    }

    /// Whether a folder is there that can't be listed.
    pub(crate) fn is_closed_folder(&self, folder: &str) -> bool {
        let listed = std::fs::read_dir(under(&self.root, Path::new(folder)));
        listed.is_err_and(|err| err.kind() != ErrorKind::NotFound)
    }

    /// The files in a folder whose names are numbers.
    pub(crate) fn numbered_files_in(&self, folder: &str) -> Vec<String> {
        self.files_in(folder, |name| name.bytes().all(|b| b.is_ascii_digit()))
    }

    /// The root itself.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }
}
