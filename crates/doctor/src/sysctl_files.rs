//! The files that set sysctls at each start.

use std::collections::BTreeMap;

use crate::file_value::FileValue;
use crate::system_files::SystemFiles;

/// Where settings lie, the first place first: a file hides one of the same name further down (sysctl.d(5)).
pub(crate) const SYSCTL_FOLDERS: &[&str] = &[
    "/etc/sysctl.d",
    "/run/sysctl.d",
    "/usr/local/lib/sysctl.d",
    "/usr/lib/sysctl.d",
    "/lib/sysctl.d",
];

/// Read last (sysctl(8)), by systemd as a link of the name 99-sysctl.conf.
const SYSCTL_CONF_FILE: &str = "/etc/sysctl.conf";

/// A setting of a file.
pub(crate) struct SysctlAssignment {
    pub(crate) file: String,
    pub(crate) value: String,
}

/// The last file that sets this, and the value there.
pub(crate) fn last_assignment(files: &SystemFiles, name: &str) -> Option<(String, String)> {
    let (all, _) = read_assignments(files);
    let last = all.into_iter().rfind(|(set, _)| set == name);
    last.map(|(_, setting)| (setting.file, setting.value))
}

/// The assignments of all files, in the order in which they are read, and whether a file or a folder of files is there that could not
/// be read.
pub(crate) fn read_assignments(files: &SystemFiles) -> (Vec<(String, SysctlAssignment)>, bool) {
    let (mut found, mut unread) = (Vec::new(), false);
    let mut by_name = BTreeMap::new();
    for folder in SYSCTL_FOLDERS {
        unread |= files.is_closed_folder(folder);
        for path in files.files_in(folder, |name| name.ends_with(".conf")) {
            let name = path.rsplit('/').next().unwrap_or_default().to_owned();
            by_name.entry(name).or_insert(path);
        }
    }
    for file in by_name.into_values().chain([SYSCTL_CONF_FILE.to_owned()]) {
        let text = files.file(&file);
        unread |= matches!(text, FileValue::Refused(_));
        for (name, value) in text
            .text()
            .unwrap_or_default()
            .lines()
            .filter_map(parse_assignment)
        {
            let file = file.clone();
            found.push((name, SysctlAssignment { file, value }));
        }
    }
    (found, unread)
}

/// `name = value`; before the name `-` says that errors are none. A name is written with dots or slashes,
/// whichever comes first (sysctl.d(5)).
fn parse_assignment(line: &str) -> Option<(String, String)> {
    let line = line.trim();
    if line.starts_with(['#', ';']) {
        return None;
    }
    let (name, value) = line.split_once('=')?;
    let name = name.trim();
    let name = name.strip_prefix('-').unwrap_or(name).trim();
    let slashes = name
        .find(['.', '/'])
        .is_some_and(|at| name[at..].starts_with('/'));
    let name = if slashes {
        name.replace('/', ".")
    } else {
        name.to_owned()
    };
    Some((name, value.trim().to_owned()))
}
