//! One process, as its files in /proc show it.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use quell_host::maps::{self, Mapping};
use quell_host::proc::Proc;
use quell_host::{cpus, under};
use quell_remedy::Recognised;

use crate::file_value::FileValue;
use crate::finding::FileReading;

/// f_type of file systems whose pages no disk lies behind (include/uapi/linux/magic.h; fs/aio.c): in memory, of
/// devices, or the kernel's own.
const NEVER_WRITTEN_BACK: [(i64, &str); 12] = [
    (0x0102_1994, "tmpfs"),
    (0x9584_58f6, "hugetlbfs"),
    (0x8584_58f6, "ramfs"),
    (0xa10a_10a1, "the rings of io_setup(2)"),
    (0x6265_6572, "sysfs, such as the memory of a PCI device"),
    (0x6462_6720, "debugfs"),
    (0x7472_6163, "tracefs"),
    (0x9fa0, "proc"),
    (0x444d_4142, "dma-buf"),
    (0x454d_444d, "/dev/mem"),
    (0x5345_434d, "memfd_secret(2)"),
    (0x0904_1934, "anonymous inodes, such as perf's rings"),
];

/// A shared, writable mapping of a file, and whether a disk lies behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SharedFileMapping {
    /// The file.
    pub(crate) path: PathBuf,
    /// Whether its pages are written back to a disk; `None` if the file system could not be asked.
    pub(crate) written_back: Option<bool>,
}

impl SharedFileMapping {
    /// Whether it has the counters of a Java virtual machine, by its path alone: /tmp/hsperfdata_USER/PID (perfMemory_posix.cpp).
    /// A rule of its own judges these, and those of other mapped files leave them out.
    pub(crate) fn has_java_counters(&self) -> bool {
        self.path.to_string_lossy().contains("/hsperfdata_")
    }
}

/// One process.
pub struct AuditedProcess {
    root: PathBuf,
    proc: Proc,
    pid: u32,
    /// The software that was recognised: kept, because some files are large and several rules ask.
    recognised: OnceLock<Result<Recognised, String>>,
    /// To write these the kernel walks all of its page tables, with its mmap_lock held.
    smaps: OnceLock<FileValue>,
    rollup: OnceLock<FileValue>,
}

impl AuditedProcess {
    pub(crate) fn new(root: &Path, pid: u32) -> Self {
        Self {
            root: root.to_owned(),
            proc: Proc::new(root),
            pid,
            recognised: OnceLock::new(),
            smaps: OnceLock::new(),
            rollup: OnceLock::new(),
        }
    }

    /// Its number.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether it is gone.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        !self.proc.exists(self.pid)
    }

    /// The path of one of its files, for the report.
    pub(crate) fn proc_path(&self, name: &str) -> String {
        format!("/proc/{}/{name}", self.pid)
    }

    /// One of its files.
    pub(crate) fn file(&self, name: &str) -> FileValue {
        match std::fs::read(self.proc.path_of(self.pid, name)) {
            Ok(bytes) => FileValue::Text(String::from_utf8_lossy(&bytes).trim_end().to_owned()),
            Err(err)
                if err.kind() == std::io::ErrorKind::NotFound && self.proc.exists(self.pid) =>
            {
                FileValue::Absent
            }
            Err(err) => FileValue::Refused(err.to_string()),
        }
    }

    /// A line of its status, without the name, with the part that goes into the finding.
    pub(crate) fn status_field(&self, field: &str) -> (Option<String>, FileReading) {
        let status = self.file("status");
        let line = status.field(field).map(str::to_owned);
        let shown = status.shown_part(line.clone());
        let read = FileReading::new(format!("{} {field}", self.proc_path("status")), shown);
        (line, read)
    }

    /// A line of its status in kB, as bytes.
    pub(crate) fn status_field_bytes(&self, field: &str) -> (Option<u64>, FileReading) {
        let (line, read) = self.status_field(field);
        let kb = line.and_then(|l| l.strip_suffix(" kB")?.trim().parse::<u64>().ok());
        (kb.map(|kb| kb * 1024), read)
    }

    /// A sum of its smaps_rollup, bytes.
    pub(crate) fn rollup_bytes(&self, field: &str) -> (Option<u64>, FileReading) {
        let rollup = self.rollup.get_or_init(|| self.file("smaps_rollup"));
        let line = rollup.field(field);
        let kb = line.and_then(|l| l.strip_suffix(" kB")?.trim().parse::<u64>().ok());
        let shown = rollup.shown_part(kb.map(|kb| format!("{kb} kB")));
        let read = FileReading::new(format!("{} {field}", self.proc_path("smaps_rollup")), shown);
        (kb.map(|kb| kb * 1024), read)
    }

    /// How many of its mappings have a flag of VmFlags (proc_pid_smaps(5)), such as `mg`; `None` if they can't be read.
    pub(crate) fn count_flagged(&self, flags: &[&str]) -> Option<usize> {
        let smaps = self.smaps.get_or_init(|| self.file("smaps"));
        let lines = smaps
            .text()?
            .lines()
            .filter_map(|l| l.strip_prefix("VmFlags:"));
        let has = |line: &&str| line.split_ascii_whitespace().any(|f| flags.contains(&f));
        Some(lines.filter(has).count())
    }

    /// Its mappings; `None` if they can't be read.
    pub(crate) fn mappings(&self) -> Option<Vec<Mapping>> {
        let path = under(&self.root, Path::new(&self.proc_path("maps")));
        let text = std::fs::read(path).ok()?;
        Some(maps::parse_maps(&text))
    }

    /// Its shared, writable mappings of files: asked of the mapping itself, for a path may name another file
    /// by now, or one in another mount namespace.
    pub(crate) fn shared_file_mappings(&self) -> Option<Vec<SharedFileMapping>> {
        let written = |m: &&Mapping| m.perms.shared && m.perms.write && m.is_file();
        let maps = self.mappings()?;
        let found = maps.iter().filter(written).map(|m| {
            let link = format!("map_files/{:x}-{:x}", m.start, m.end);
            let kind = rustix::fs::statfs(self.proc.path_of(self.pid, &link));
            SharedFileMapping {
                path: m.path.clone().unwrap_or_default(),
                written_back: kind.ok().map(|s| {
                    !NEVER_WRITTEN_BACK
                        .iter()
                        .any(|(magic, _)| *magic == s.f_type)
                }),
            }
        });
        Some(found.collect())
    }

    /// A variable of the environment that it was started with. `None` if that can't be read.
    pub(crate) fn start_variable(&self, name: &str) -> Option<Option<String>> {
        let environ = self.proc.environ(self.pid).ok()?;
        let value = environ.get(std::ffi::OsStr::new(name));
        Some(value.map(|v| v.to_string_lossy().into_owned()))
    }

    /// Its arguments.
    pub(crate) fn arguments(&self) -> Option<Vec<String>> {
        let words = self.proc.cmdline(self.pid).ok()?;
        Some(
            words
                .iter()
                .map(|w| w.to_string_lossy().into_owned())
                .collect(),
        )
    }

    /// CPUs of those of its threads that may not run on all: often not of the first one. None where they are all.
    pub(crate) fn pinned_cpus(&self) -> Vec<u32> {
        let online = cpus::read_online_cpus(&self.root).unwrap_or_default();
        let threads = self.proc.thread_stats(self.pid).unwrap_or_default();
        let mut files: Vec<String> = threads
            .iter()
            .map(|(tid, _)| format!("task/{tid}/status"))
            .collect();
        files.push("status".to_owned());
        let mut pinned: Vec<u32> = files
            .iter()
            .filter_map(|file| cpus::parse_cpu_list(self.file(file).field("Cpus_allowed_list")?))
            .filter(|list| list.len() < online.len())
            .flatten()
            .collect();
        pinned.sort_unstable();
        pinned.dedup();
        if pinned.len() < online.len() {
            pinned
        } else {
            Vec::new()
        }
    }

    /// The file system root that it is looked at under.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The allocators and runtimes in the files that it runs code from.
    ///
    /// # Errors
    ///
    /// If its mappings can't be read: why.
    pub(crate) fn recognised_software(&self) -> Result<&Recognised, &str> {
        let recognise = || quell_remedy::recognise_process(&self.root, self.pid);
        let once = || recognise().map_err(|err| format!("{err:#}"));
        self.recognised
            .get_or_init(once)
            .as_ref()
            .map_err(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that a ring of io_setup(2), which looks like a mapped file, is not taken for one that is written to a disk.
    #[test]
    fn aio_rings_are_no_files() {
        let mut ring: libc::c_ulong = 0;
        // SAFETY: the call writes the ring's address; it is taken away below.
        let made = unsafe { libc::syscall(libc::SYS_io_setup, 1, &raw mut ring) };
        if made != 0 {
            eprintln!("SKIPPED aio_rings_are_no_files: no io_setup(2) here");
            return;
        }
        let process = AuditedProcess::new(Path::new("/"), std::process::id());
        let maps = process.shared_file_mappings().unwrap();
        // SAFETY: the ring that was made above, which nobody uses.
        unsafe { libc::syscall(libc::SYS_io_destroy, ring) };
        let rings = maps.iter().filter(|m| m.path.starts_with("/[aio]"));
        let found: Vec<_> = rings.map(|m| m.written_back).collect();
        assert!(!found.is_empty(), "{maps:?}");
        // who may not follow the links of map_files does not know
        assert!(found.iter().all(|w| *w != Some(true)), "{found:?}");
    }
}
