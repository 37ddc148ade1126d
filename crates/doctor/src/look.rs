//! What rules read with: files under a root that tests replace, and what is known besides.

use std::cell::OnceCell;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use quell_host::proc::Proc;
use quell_host::{cpus, under};

use crate::evidence::Evidence;
use crate::finding::Read;
use crate::fix::Fix;
use crate::process::Process;
use crate::profile::Profile;
use crate::rules::last_set;

/// No setting is longer; what is, such as /proc/vmstat, is cut for the report only.
const SHOWN: usize = 200;

const KTHREADD: &str = "/proc/2/comm";

/// What a file said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Its text, without the end of the last line.
    Text(String),
    /// This kernel, or this machine, has no such file.
    Absent,
    /// It is there, or may be, and could not be read: why.
    Refused(String),
}

impl Value {
    /// The text, if there is any.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Absent | Self::Refused(_) => None,
        }
    }

    /// The text as a number.
    #[must_use]
    pub fn number(&self) -> Option<i64> {
        self.text()?.trim().parse().ok()
    }

    /// The word in brackets, of a file that lists its choices: `always [madvise] never`.
    #[must_use]
    pub fn chosen(&self) -> Option<&str> {
        let text = self.text()?;
        let (_, rest) = text.split_once('[')?;
        Some(rest.split_once(']')?.0)
    }

    /// What of it goes into the finding, where a part of the text was looked for.
    pub(crate) fn part(&self, found: Option<String>) -> String {
        match (found, self) {
            (Some(found), _) => found,
            (None, Self::Refused(why)) => format!("({why})"),
            (None, _) => "(absent)".to_owned(),
        }
    }

    fn shown(&self) -> String {
        match self {
            Self::Text(text) => {
                let mut shown: String = text.chars().take(SHOWN).collect();
                if shown.len() < text.len() {
                    shown.push('…');
                }
                shown
            }
            Self::Absent => "(absent)".to_owned(),
            Self::Refused(why) => format!("({why})"),
        }
    }
}

/// What rules are asked with.
pub struct Look<'a> {
    root: PathBuf,
    process: Option<Process>,
    profile: Profile,
    evidence: &'a Evidence,
    /// Names of all processes.
    running: Vec<String>,
    /// /proc/cpuinfo: some rules ask for a flag, and on a large machine the kernel takes long to write it.
    cpuinfo: OnceCell<Value>,
}

impl<'a> Look<'a> {
    /// At the machine under this root, `/` for this one, and at a process of it.
    #[must_use]
    pub fn new(root: &Path, pid: Option<u32>, profile: Profile, evidence: &'a Evidence) -> Self {
        let proc = Proc::new(root);
        let pids = proc.pids().unwrap_or_default();
        Self {
            root: root.to_owned(),
            process: pid.map(|pid| Process::new(root, pid)),
            profile,
            evidence,
            cpuinfo: OnceCell::new(),
            running: pids.iter().filter_map(|&pid| proc.comm(pid).ok()).collect(),
        }
    }

    /// A file, by its absolute path.
    #[must_use]
    pub fn file(&self, path: &str) -> Value {
        match std::fs::read(under(&self.root, Path::new(path))) {
            Ok(bytes) => Value::Text(String::from_utf8_lossy(&bytes).trim_end().to_owned()),
            Err(err) if err.kind() == ErrorKind::NotFound && self.is_visible(path) => Value::Absent,
            Err(err) if err.kind() == ErrorKind::NotFound => {
                Value::Refused("not visible here".to_owned())
            }
            Err(err) => Value::Refused(err.to_string()),
        }
    }

    /// In a container /sys and /proc/sys may be masked: then a file that is missing tells nothing. What every
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

    /// A file, and what of it goes into the finding.
    #[must_use]
    pub fn read(&self, path: &str) -> (Value, Read) {
        let value = self.file(path);
        let read = Read::new(path, value.shown());
        (value, read)
    }

    /// The files in a folder with a name that passes, by their absolute paths, sorted.
    #[must_use]
    pub fn list(&self, folder: &str, passes: impl Fn(&str) -> bool) -> Vec<String> {
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

    /// What in a folder is named by a number.
    #[must_use]
    pub fn numbered(&self, folder: &str) -> Vec<String> {
        self.list(folder, |name| name.bytes().all(|b| b.is_ascii_digit()))
    }

    /// Whether a process of this name runs.
    #[must_use]
    pub fn runs(&self, comm: &str) -> bool {
        self.running.iter().any(|name| name == comm)
    }

    /// The process that is looked at.
    #[must_use]
    pub fn process(&self) -> Option<&Process> {
        self.process.as_ref()
    }

    /// For whom it is judged.
    #[must_use]
    pub fn profile(&self) -> Profile {
        self.profile
    }

    /// What was seen to happen.
    #[must_use]
    pub fn evidence(&self) -> &Evidence {
        self.evidence
    }

    /// The parameters of the kernel's command line.
    #[must_use]
    pub fn cmdline(&self) -> Vec<String> {
        let line = self.file("/proc/cmdline");
        let words = line.text().unwrap_or_default().split_ascii_whitespace();
        words.map(str::to_owned).collect()
    }

    /// /proc/cpuinfo, read once.
    #[must_use]
    pub fn cpuinfo(&self) -> &Value {
        self.cpuinfo.get_or_init(|| self.file("/proc/cpuinfo"))
    }

    /// Whether the first CPU has a flag; `None` if /proc/cpuinfo can't be read.
    #[must_use]
    pub fn cpu_flag(&self, flag: &str) -> Option<bool> {
        let line = self
            .cpuinfo()
            .text()?
            .lines()
            .find(|l| l.starts_with("flags"))?;
        let (_, flags) = line.split_once(':')?;
        Some(flags.split_ascii_whitespace().any(|f| f == flag))
    }

    /// CPUs that the program runs on and that nobody is to disturb: those that threads of the process are pinned
    /// to, or those that are set apart.
    #[must_use]
    pub fn hot_cpus(&self) -> Vec<u32> {
        let own = self.process().map(Process::pinned_cpus).unwrap_or_default();
        if own.is_empty() {
            return cpus::Isolation::read(&self.root).all();
        }
        own
    }

    /// Whether the processes of all can be seen: the kernel's thread of this name has this number on every machine,
    /// and is not seen from within a container, or where /proc hides the processes of others.
    #[must_use]
    pub fn sees_all(&self) -> bool {
        self.file(KTHREADD).text() == Some("kthreadd")
    }

    /// The file that sets a sysctl otherwise at each start.
    fn set_again(&self, fix: &Fix) -> Option<String> {
        let Fix::Sysctl { name, value } = fix else {
            return None;
        };
        let (file, other) = last_set(self, name)?;
        (other != *value).then(|| {
            format!(
                "{file} sets {name} to {other} at each start: set it there, or in a file that is read after it \
                 (/etc/sysctl.d/99-zz-quell.conf)"
            )
        })
    }

    /// Who would take these fixes back.
    pub(crate) fn managers(&self, fixes: &[Fix]) -> Vec<String> {
        let mut notes = Vec::new();
        let settings = fixes.iter().filter_map(Fix::file);
        let settings: Vec<(String, &str)> = settings.collect();
        if settings.is_empty() {
            return notes;
        }
        notes.extend(fixes.iter().filter_map(|fix| self.set_again(fix)));
        let tuned = self.file("/etc/tuned/active_profile");
        if let Some(profile) = tuned.text().filter(|p| !p.is_empty() && self.runs("tuned")) {
            notes.push(format!(
                "tuned runs with the profile '{profile}' and may set this again: put it into a profile of your \
                 own (--emit tuned)"
            ));
        }
        let ksm = settings
            .iter()
            .any(|(path, _)| path.starts_with("/sys/kernel/mm/ksm/"));
        if ksm && self.runs("ksmtuned") {
            notes.push(
                "ksmtuned runs and will switch KSM on again: systemctl mask --now ksmtuned"
                    .to_owned(),
            );
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Check that a file that is missing is told from one that can't be seen, and that choices and numbers are read.
    #[test]
    fn values_are_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        let evidence = Evidence::default();
        let look = |root: &Path| Look::new(root, None, Profile::default(), &evidence);
        assert!(matches!(
            look(dir.path()).file("/proc/sys/vm/x"),
            Value::Refused(_)
        ));
        fs::create_dir_all(dir.path().join("proc/sys/kernel")).unwrap();
        fs::write(dir.path().join("proc/sys/kernel/osrelease"), "6.1\n").unwrap();
        assert_eq!(look(dir.path()).file("/proc/sys/vm/x"), Value::Absent);
        fs::write(dir.path().join("proc/cmdline"), "a b=c\n").unwrap();
        assert_eq!(look(dir.path()).cmdline(), ["a", "b=c"]);
        let value = Value::Text("always [madvise] never".to_owned());
        assert_eq!(value.chosen(), Some("madvise"));
        assert_eq!(value.number(), None);
        assert_eq!(Value::Text("-1".to_owned()).number(), Some(-1));
    }

    /// Check that hot CPUs are those of all threads that are pinned, before those that the kernel sets apart.
    #[test]
    fn hot_cpus_of_all_threads() {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let stat = "(a) S 1 1 1 0 -1 0 10 0 2 0 5 6 0 0 20 0 3 0 100 0 0\n";
        write("sys/devices/system/cpu/online", "0-7\n");
        write("sys/devices/system/cpu/isolated", "7\n");
        for (tid, list) in [(9, "0-7"), (10, "2"), (11, "3")] {
            write(&format!("proc/9/task/{tid}/stat"), &format!("{tid} {stat}"));
            write(
                &format!("proc/9/task/{tid}/status"),
                &format!("Cpus_allowed_list:\t{list}\n"),
            );
        }
        write("proc/9/stat", &format!("9 {stat}"));
        write("proc/9/status", "Cpus_allowed_list:\t0-7\n");
        let evidence = Evidence::default();
        let look = |pid| Look::new(dir.path(), pid, Profile::default(), &evidence);
        assert_eq!(look(Some(9)).hot_cpus(), [2, 3]);
        assert_eq!(look(None).hot_cpus(), [7]);
    }
}
