//! The machine as rules see it: its files, its processes, and the evidence of harm.

use std::cell::OnceCell;
use std::ops::Deref;
use std::path::Path;

use quell_host::cpus;
use quell_host::proc::Proc;

use crate::evidence::HarmEvidence;
use crate::file_value::FileValue;
use crate::fix::Fix;
use crate::process::AuditedProcess;
use crate::profile::WorkloadProfile;
use crate::sysctl_files::last_assignment;
use crate::system_files::SystemFiles;

const KTHREADD_NAME_FILE: &str = "/proc/2/comm";

/// All that a rule may ask.
pub struct SystemView<'a> {
    files: SystemFiles,
    process: Option<AuditedProcess>,
    /// For whom it is judged.
    pub(crate) profile: WorkloadProfile,
    /// The evidence of harm that was done.
    pub(crate) evidence: &'a HarmEvidence,
    /// Names of all processes.
    running_names: Vec<String>,
    /// /proc/cpuinfo: some rules ask for a flag, and on a large machine the kernel takes long to write it.
    cpuinfo: OnceCell<FileValue>,
}

/// Rules ask the machine for its files.
impl Deref for SystemView<'_> {
    type Target = SystemFiles;

    fn deref(&self) -> &SystemFiles {
        &self.files
    }
}

impl<'a> SystemView<'a> {
    /// A look at the machine under this root, `/` for this one, and at a process of it. The names of all processes are read now, and none
    /// where /proc can't be listed; other files when a rule asks.
    #[must_use]
    pub fn new(
        root: &Path,
        pid: Option<u32>,
        profile: WorkloadProfile,
        evidence: &'a HarmEvidence,
    ) -> Self {
        let proc = Proc::new(root);
        let pids = proc.list_pids().unwrap_or_default();
        Self {
            files: SystemFiles::new(root),
            process: pid.map(|pid| AuditedProcess::new(root, pid)),
            profile,
            evidence,
            cpuinfo: OnceCell::new(),
            running_names: pids.iter().filter_map(|&pid| proc.comm(pid).ok()).collect(),
        }
    }

    /// Whether a process of this name runs.
    pub(crate) fn is_running(&self, comm: &str) -> bool {
        self.running_names.iter().any(|name| name == comm)
    }

    /// The process that is looked at.
    #[must_use]
    pub fn process(&self) -> Option<&AuditedProcess> {
        self.process.as_ref()
    }

    /// The parameters of the kernel's command line.
    pub(crate) fn kernel_parameters(&self) -> Vec<String> {
        let line = self.file("/proc/cmdline");
        let words = line.text().unwrap_or_default().split_ascii_whitespace();
        words.map(str::to_owned).collect()
    }

    /// /proc/cpuinfo, read once.
    pub(crate) fn cpuinfo(&self) -> &FileValue {
        self.cpuinfo.get_or_init(|| self.file("/proc/cpuinfo"))
    }

    /// Whether the first CPU has a flag; `None` if /proc/cpuinfo can't be read, or has no line of flags, as on other processors.
    pub(crate) fn cpu_flag(&self, flag: &str) -> Option<bool> {
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
    pub(crate) fn hot_cpus(&self) -> Vec<u32> {
        let own = self
            .process()
            .map(AuditedProcess::pinned_cpus)
            .unwrap_or_default();
        if own.is_empty() {
            return cpus::Isolation::read(self.root()).all_cpus();
        }
        own
    }

    /// Whether the processes of all can be seen: the kernel's thread of this name has this number on every machine,
    /// and is not seen from within a container, or where /proc hides the processes of others.
    pub(crate) fn sees_all_processes(&self) -> bool {
        self.file(KTHREADD_NAME_FILE).text() == Some("kthreadd")
    }

    /// The file that sets a sysctl otherwise at each start.
    fn start_override(&self, fix: &Fix) -> Option<String> {
        let Fix::Sysctl { name, value } = fix else {
            return None;
        };
        let (file, other) = last_assignment(self, name)?;
        (other != *value).then(|| {
            format!(
                "{file} sets {name} to {other} at each start: set it there, or in a file that is read after it \
                 (/etc/sysctl.d/99-zz-quell.conf)"
            )
        })
    }

    /// Names the programs and files that would take these fixes back.
    pub(crate) fn revert_warnings(&self, fixes: &[Fix]) -> Vec<String> {
        let mut notes = Vec::new();
        let settings = fixes.iter().filter_map(Fix::file_and_value);
        let settings: Vec<(String, &str)> = settings.collect();
        if settings.is_empty() {
            return notes;
        }
        notes.extend(fixes.iter().filter_map(|fix| self.start_override(fix)));
        let tuned = self.file("/etc/tuned/active_profile");
        if let Some(profile) = tuned
            .text()
            .filter(|p| !p.is_empty() && self.is_running("tuned"))
        {
            notes.push(format!(
                "tuned runs with the profile '{profile}' and may set this again: put it into a profile of your \
                 own (--emit tuned)"
            ));
        }
        let ksm = settings
            .iter()
            .any(|(path, _)| path.starts_with("/sys/kernel/mm/ksm/"));
        if ksm && self.is_running("ksmtuned") {
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
        let evidence = HarmEvidence::default();
        let look = |root: &Path| SystemView::new(root, None, WorkloadProfile::default(), &evidence);
        assert!(matches!(
            look(dir.path()).file("/proc/sys/vm/x"),
            FileValue::Refused(_)
        ));
        fs::create_dir_all(dir.path().join("proc/sys/kernel")).unwrap();
        fs::write(dir.path().join("proc/sys/kernel/osrelease"), "6.1\n").unwrap();
        assert_eq!(look(dir.path()).file("/proc/sys/vm/x"), FileValue::Absent);
        fs::write(dir.path().join("proc/cmdline"), "a b=c\n").unwrap();
        assert_eq!(look(dir.path()).kernel_parameters(), ["a", "b=c"]);
        let value = FileValue::Text("always [madvise] never".to_owned());
        assert_eq!(value.chosen_word(), Some("madvise"));
        assert_eq!(value.number(), None);
        assert_eq!(FileValue::Text("-1".to_owned()).number(), Some(-1));
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
        let evidence = HarmEvidence::default();
        let look = |pid| SystemView::new(dir.path(), pid, WorkloadProfile::default(), &evidence);
        assert_eq!(look(Some(9)).hot_cpus(), [2, 3]);
        assert_eq!(look(None).hot_cpus(), [7]);
    }
}
