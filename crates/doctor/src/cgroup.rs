//! The place of a process in a hierarchy of cgroups.

use crate::process::AuditedProcess;
use crate::system_files::SystemFiles;

/// Where a process stands in the hierarchy that has a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ControllerCgroup {
    /// Whether that is the unified one.
    pub(crate) v2: bool,
    /// Where the hierarchy is mounted.
    root: String,
    /// The folder of the process.
    pub(crate) folder: String,
}

impl ControllerCgroup {
    /// `None` if it can't be read, or lies outside of the cgroup namespace that is looked from.
    pub(crate) fn of_process(process: &AuditedProcess, controller: &str) -> Option<Self> {
        let file = process.file("cgroup");
        let mut unified = None;
        for line in file.text()?.lines() {
            let mut parts = line.splitn(3, ':').skip(1);
            let (controllers, path) = (parts.next()?, parts.next()?);
            if controllers.split(',').any(|c| c == controller) {
                return Self::at_path(false, format!("/sys/fs/cgroup/{controller}"), path);
            }
            if controllers.is_empty() {
                unified = Some(path);
            }
        }
        Self::at_path(true, "/sys/fs/cgroup".to_owned(), unified?)
    }

    fn at_path(v2: bool, root: String, path: &str) -> Option<Self> {
        if path.split('/').any(|part| part == "..") {
            return None;
        }
        let folder = format!("{root}{}", path.trim_end_matches('/'));
        Some(Self { v2, root, folder })
    }

    /// Its folder and those above, which limit it too.
    pub(crate) fn folders_upward(&self) -> Vec<String> {
        let mut levels = vec![self.folder.clone()];
        let mut at = self.folder.as_str();
        while let Some((above, _)) = at.rsplit_once('/').filter(|_| at != self.root) {
            levels.push(above.to_owned());
            at = above;
        }
        levels
    }

    /// Whether its folder can be seen at all: every cgroup has files of this name.
    pub(crate) fn is_visible(&self, files: &SystemFiles) -> bool {
        let files = files.files_in(&self.folder, |name| name.starts_with("cgroup."));
        !files.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that a cgroup has the levels above it, and ends where its hierarchy is mounted.
    #[test]
    fn folders_upward() {
        let cgroup =
            ControllerCgroup::at_path(false, "/sys/fs/cgroup/memory".to_owned(), "/a/b").unwrap();
        assert_eq!(
            cgroup.folders_upward(),
            [
                "/sys/fs/cgroup/memory/a/b",
                "/sys/fs/cgroup/memory/a",
                "/sys/fs/cgroup/memory"
            ]
        );
        let root = ControllerCgroup::at_path(true, "/sys/fs/cgroup".to_owned(), "/").unwrap();
        assert_eq!(root.folders_upward(), ["/sys/fs/cgroup"]);
        assert_eq!(
            ControllerCgroup::at_path(true, "/sys/fs/cgroup".to_owned(), "/../x"),
            None
        );
    }
}
