//! What rules about the machine share: lists and masks of CPUs, flags of the processor, cgroups.

use quell_host::cpus;

use crate::finding::Read;
use crate::look::{Look, Value};
use crate::process::Process;
use crate::rule::Checked;

pub(super) const ISOLATED: &str = "/sys/devices/system/cpu/isolated";
pub(super) const NOHZ_FULL: &str = "/sys/devices/system/cpu/nohz_full";
const ONLINE: &str = "/sys/devices/system/cpu/online";
const RELEASE: &str = "/proc/sys/kernel/osrelease";

/// More groups of 32 CPUs than any Linux has (CONFIG_NR_CPUS of x86 ends at 8192).
const MOST_GROUPS: usize = 256;

/// The CPUs that a file lists: none if it is missing, empty or `(null)`, as nohz_full is where the kernel was
/// not told of any (drivers/base/cpu.c). `None` if it can't be read or is no list.
pub(super) fn cpu_list(value: &Value) -> Option<Vec<u32>> {
    match value {
        Value::Text(text) if matches!(text.trim(), "" | "(null)") => Some(Vec::new()),
        Value::Text(text) => cpus::list(text.trim()),
        Value::Absent => Some(Vec::new()),
        Value::Refused(_) => None,
    }
}

/// The CPUs that are online; none where that can't be read.
pub(super) fn online(look: &Look<'_>) -> Vec<u32> {
    cpu_list(&look.file(ONLINE)).unwrap_or_default()
}

/// The configuration that the kernel was built with, where its package left it.
pub(super) fn config(look: &Look<'_>) -> Option<String> {
    let kernel = look.file(RELEASE);
    let config = look.file(&format!("/boot/config-{}", kernel.text()?));
    let text = config.text().filter(|t| t.contains("CONFIG_"))?;
    Some(text.to_owned())
}

/// These CPUs without those.
pub(super) fn without(these: &[u32], those: &[u32]) -> Vec<u32> {
    let kept = these.iter().filter(|cpu| !those.contains(cpu));
    kept.copied().collect()
}

/// What a rule says about the CPUs that nobody is to disturb, where there are any.
pub(super) fn for_hot(look: &Look<'_>, check: fn(&Look<'_>, &[u32]) -> Checked) -> Checked {
    let hot = look.hot_cpus();
    if !hot.is_empty() {
        return check(look, &hot);
    }
    let (isolated, first) = look.read(ISOLATED);
    let (full, second) = look.read(NOHZ_FULL);
    let readable = [isolated, full].iter().all(|v| cpu_list(v).is_some());
    let checked = if readable {
        Checked::ok("no CPU is set apart for a program")
    } else {
        Checked::unknown("which CPUs are set apart can't be read")
    };
    checked.read([first, second])
}

/// The CPUs of a mask as the kernel writes it: groups of 32 in hexadecimal, the highest first.
pub(super) fn mask(text: &str) -> Option<Vec<u32>> {
    let groups: Vec<&str> = text.trim().split(',').collect();
    if groups.len() > MOST_GROUPS {
        return None;
    }
    let mut cpus = Vec::new();
    for (first, group) in (0..).step_by(32).zip(groups.iter().rev()) {
        let hex = (1..=8).contains(&group.len()) && group.bytes().all(|b| b.is_ascii_hexdigit());
        let bits = u32::from_str_radix(group, 16).ok().filter(|_| hex)?;
        cpus.extend(
            (0..32)
                .filter(|bit| bits >> bit & 1 == 1)
                .map(|bit| first + bit),
        );
    }
    Some(cpus)
}

/// A mask of CPUs as the kernel takes it.
pub(super) fn mask_text(cpus: &[u32]) -> String {
    let top = cpus.iter().max().map_or(0, |cpu| cpu / 32);
    let group = |group: u32| {
        let of_it = cpus.iter().filter(|&cpu| cpu / 32 == group);
        let bits = of_it.fold(0_u32, |bits, cpu| bits | 1 << (cpu % 32));
        if group == top {
            format!("{bits:x}")
        } else {
            format!("{bits:08x}")
        }
    };
    (0..=top).rev().map(group).collect::<Vec<_>>().join(",")
}

/// The kernel's version: `6.12`.
pub(super) fn release(look: &Look<'_>) -> Option<(u32, u32)> {
    let value = look.file(RELEASE);
    let mut parts = value.text()?.split('.');
    let major = parts.next()?.trim().parse().ok()?;
    let minor: String = parts
        .next()?
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    Some((major, minor.parse().ok()?))
}

/// The value of a parameter of the kernel's command line, empty for one without; the last one counts.
pub(super) fn parameter<'w>(words: &'w [String], name: &str) -> Option<&'w str> {
    words.iter().rev().find_map(|word| {
        let rest = word.strip_prefix(name)?;
        if rest.is_empty() {
            Some(rest)
        } else {
            rest.strip_prefix('=')
        }
    })
}

/// What /proc/cpuinfo says of a flag of x86.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flag {
    Has,
    Lacks,
    /// Processors of another kind, which have no such line.
    Foreign,
    Unreadable,
}

/// A flag of x86, and what of it goes into the finding.
pub(super) fn flag(look: &Look<'_>, name: &str) -> (Flag, Read) {
    let flag = match look.cpu_flag(name) {
        Some(true) => Flag::Has,
        Some(false) => Flag::Lacks,
        None => {
            let mut lines = look.cpuinfo().text().unwrap_or_default().lines();
            if lines.any(|l| l.starts_with("processor")) {
                Flag::Foreign
            } else {
                Flag::Unreadable
            }
        }
    };
    let said = match flag {
        Flag::Has => name.to_owned(),
        Flag::Lacks => format!("no {name}"),
        Flag::Foreign => "(no flags of x86)".to_owned(),
        Flag::Unreadable => "(not readable)".to_owned(),
    };
    (flag, Read::new("/proc/cpuinfo flags", said))
}

/// Where a process stands in the hierarchy that has a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cgroup {
    /// Whether that is the unified one.
    pub(super) v2: bool,
    /// Where the hierarchy is mounted.
    root: String,
    /// The folder of the process.
    pub(super) folder: String,
}

impl Cgroup {
    /// `None` if it can't be read, or lies outside of the cgroup namespace that is looked from.
    pub(super) fn of(process: &Process, controller: &str) -> Option<Self> {
        let file = process.file("cgroup");
        let mut unified = None;
        for line in file.text()?.lines() {
            let mut parts = line.splitn(3, ':').skip(1);
            let (controllers, path) = (parts.next()?, parts.next()?);
            if controllers.split(',').any(|c| c == controller) {
                return Self::at(false, format!("/sys/fs/cgroup/{controller}"), path);
            }
            if controllers.is_empty() {
                unified = Some(path);
            }
        }
        Self::at(true, "/sys/fs/cgroup".to_owned(), unified?)
    }

    fn at(v2: bool, root: String, path: &str) -> Option<Self> {
        if path.split('/').any(|part| part == "..") {
            return None;
        }
        let folder = format!("{root}{}", path.trim_end_matches('/'));
        Some(Self { v2, root, folder })
    }

    /// Its folder and those above, which limit it too.
    pub(super) fn levels(&self) -> Vec<String> {
        let mut levels = vec![self.folder.clone()];
        let mut at = self.folder.as_str();
        while let Some((above, _)) = at.rsplit_once('/').filter(|_| at != self.root) {
            levels.push(above.to_owned());
            at = above;
        }
        levels
    }

    /// Whether its folder can be seen at all: every cgroup has files of this name.
    pub(super) fn is_visible(&self, look: &Look<'_>) -> bool {
        let files = look.list(&self.folder, |name| name.starts_with("cgroup."));
        !files.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that masks read as the kernel writes them, are written so, and that nonsense is none.
    #[test]
    fn masks() {
        assert_eq!(mask("c"), Some(vec![2, 3]));
        assert_eq!(mask("1,00000003"), Some(vec![0, 1, 32]));
        assert_eq!(mask("0"), Some(vec![]));
        for bad in ["", "x", "1,,2", "+1", "123456789"] {
            assert_eq!(mask(bad), None, "{bad}");
        }
        assert_eq!(mask_text(&[2, 3]), "c");
        assert_eq!(mask_text(&[0, 1, 32]), "1,00000003");
        assert_eq!(mask_text(&[]), "0");
    }

    /// Check that lists that name no CPU are told from those that can't be read.
    #[test]
    fn lists() {
        let text = |t: &str| Value::Text(t.to_owned());
        assert_eq!(cpu_list(&text("  (null)")), Some(vec![]));
        assert_eq!(cpu_list(&text("")), Some(vec![]));
        assert_eq!(cpu_list(&text("2-3")), Some(vec![2, 3]));
        assert_eq!(cpu_list(&text("x")), None);
        assert_eq!(cpu_list(&Value::Refused(String::new())), None);
    }

    /// Check that a parameter is found with and without a value, and the last one counts.
    #[test]
    fn parameters() {
        let words: Vec<String> = ["rcu_nocbs=1", "nopcid", "rcu_nocbs=2-3", "nopcidx"]
            .map(str::to_owned)
            .to_vec();
        assert_eq!(parameter(&words, "rcu_nocbs"), Some("2-3"));
        assert_eq!(parameter(&words, "nopcid"), Some(""));
        assert_eq!(parameter(&words, "rcu"), None);
    }

    /// Check that a cgroup has the levels above it, and ends where its hierarchy is mounted.
    #[test]
    fn levels() {
        let cgroup = Cgroup::at(false, "/sys/fs/cgroup/memory".to_owned(), "/a/b").unwrap();
        assert_eq!(
            cgroup.levels(),
            [
                "/sys/fs/cgroup/memory/a/b",
                "/sys/fs/cgroup/memory/a",
                "/sys/fs/cgroup/memory"
            ]
        );
        let root = Cgroup::at(true, "/sys/fs/cgroup".to_owned(), "/").unwrap();
        assert_eq!(root.levels(), ["/sys/fs/cgroup"]);
        assert_eq!(Cgroup::at(true, "/sys/fs/cgroup".to_owned(), "/../x"), None);
    }
}
