//! How close the process's control group, or one above it, is to its limit of memory.

use super::file::{File, PathBuffer, field_value};

/// So many groups are looked at, with the process's own.
const MAX_LEVELS: usize = 16;

/// The names of the files of a hierarchy (cgroups(7), Documentation/admin-guide/cgroup-v2.rst and
/// cgroup-v1/memory.rst).
struct HierarchyFiles {
    /// Where it is mounted.
    mount: &'static [u8],
    /// Whichever is lowest.
    limits: &'static [&'static [u8]],
    current: &'static [u8],
    /// The part of the sum that is pages of files that nobody has used for long, of the groups below too.
    idle: &'static [u8],
}

const UNIFIED_FILES: HierarchyFiles = HierarchyFiles {
    mount: b"/sys/fs/cgroup",
    limits: &[b"/memory.max", b"/memory.high"],
    current: b"/memory.current",
    idle: b"inactive_file",
};

/// Before the unified hierarchy, with one for memory alone.
const LEGACY_FILES: HierarchyFiles = HierarchyFiles {
    mount: b"/sys/fs/cgroup/memory",
    limits: &[b"/memory.limit_in_bytes"],
    current: b"/memory.usage_in_bytes",
    idle: b"total_inactive_file",
};

/// The group of the process.
pub(super) struct ControlGroup {
    names: &'static HierarchyFiles,
    /// Its folder, without a slash at the end, and how much of that is where the hierarchy is mounted.
    folder: PathBuffer,
    mount: usize,
}

impl ControlGroup {
    pub(super) const EMPTY: ControlGroup = ControlGroup {
        names: &UNIFIED_FILES,
        folder: PathBuffer::EMPTY,
        mount: 0,
    };

    /// By a file as /proc/self/cgroup is, and where the root of the file system is. False if it can't be read.
    pub(super) fn read_from(&mut self, file: File<'_>, root: &[u8]) -> bool {
        self.set_group(&UNIFIED_FILES, root, b"");
        let read = file.find_line_if_readable(|line| {
            if let Some(name) = of_memory(line) {
                self.set_group(&LEGACY_FILES, root, name);
                return Some(());
            }
            if let Some(name) = line.strip_prefix(b"0::") {
                self.set_group(&UNIFIED_FILES, root, name);
            }
            None
        });
        read.is_some()
    }

    fn set_group(&mut self, names: &'static HierarchyFiles, root: &[u8], name: &[u8]) {
        self.names = names;
        self.folder
            .set_parts(&[root, names.mount, relative_name(name)]);
        self.mount = root.len() + names.mount.len();
    }

    /// Its folder; empty if there is no such hierarchy.
    pub(super) fn folder_path(&self) -> &[u8] {
        self.folder.without_nul()
    }

    /// How many bytes the group, or one above it, may still have, whichever is least, and no more than `machine`. None
    /// where one is within a sixteenth of its limit. A container sees itself where the hierarchy is mounted, and a
    /// group of no such name below; groups that are not there are left out.
    pub(super) fn least_free(&self, machine: usize) -> Option<usize> {
        let mut folder = self.folder.without_nul();
        let mut least = machine;
        for _ in 0..MAX_LEVELS {
            if folder.len() < self.mount || folder.is_empty() {
                break;
            }
            least = least.min(self.free_at(folder)?);
            let above = folder.iter().rposition(|b| *b == b'/').unwrap_or(0);
            folder = &folder[..above];
        }
        Some(least)
    }

    /// How many bytes a group may still have: all where it has no limit or its use can't be read, `None` where it is close to its
    /// limit.
    fn free_at(&self, folder: &[u8]) -> Option<usize> {
        let number = |name| read_group_file(folder, name, |file: File<'_>| file.read_number());
        // `max`, where there is none, is no number.
        let limits = self.names.limits.iter();
        let Some(limit) = limits.filter_map(|name| number(name)).min() else {
            return Some(usize::MAX);
        };
        let Some(current) = number(self.names.current) else {
            return Some(usize::MAX);
        };
        let most = limit - limit / 16;
        // Files fill whatever memory there is, and the kernel takes it from them first. That is looked up only
        // where it matters: the kernel adds it up over all CPUs.
        let idle = || {
            let line = |file: File<'_>| file.find_line(|line| field_value(line, self.names.idle));
            read_group_file(folder, b"/memory.stat", line).unwrap_or(0)
        };
        let used = if current > limit / 2 {
            current.saturating_sub(idle())
        } else {
            current
        };
        (used <= most).then(|| usize::try_from(limit - used).unwrap_or(usize::MAX))
    }
}

/// Opens a file and works on it. It is a function by itself, so that there is only one name of a file at a time on the
/// stack, which may be that of a signal handler.
#[inline(never)]
fn read_group_file(
    folder: &[u8],
    name: &[u8],
    work: impl FnOnce(File<'_>) -> Option<u64>,
) -> Option<u64> {
    work(PathBuffer::from_parts(&[folder, name]).file())
}

/// Of a line of /proc/self/cgroup, the group if it is that of the first kind of hierarchy for memory:
/// `4:memory:/name`, or `5:cpu,memory:/name`.
fn of_memory(line: &[u8]) -> Option<&[u8]> {
    let mut parts = line.splitn(3, |b| *b == b':');
    let (_, controllers, name) = (parts.next()?, parts.next()?, parts.next()?);
    let mut controllers = controllers.split(|b| *b == b',');
    controllers.any(|c| c == b"memory").then_some(name)
}

/// The name as it comes behind that of a folder. Nothing for the root, and for a group that lies outside of this
/// process's view (cgroup_namespaces(7)).
fn relative_name(name: &[u8]) -> &[u8] {
    if name.starts_with(b"/..") || !name.starts_with(b"/") {
        return b"";
    }
    name.strip_suffix(b"/").unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    const MB: u64 = 1 << 20;

    /// A file system of a few files, which is gone when this is.
    struct Tree(PathBuf);

    impl Tree {
        fn new(name: &str, cgroup: &str) -> Tree {
            let root = std::env::temp_dir().join(format!("quell-{name}-{}", std::process::id()));
            let tree = Tree(root);
            tree.write("cgroup", cgroup);
            tree
        }

        fn write(&self, name: &str, text: &str) {
            let path = self.0.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }

        /// In MB.
        fn group(&self, folder: &str, limits: &[(&str, u64)], current: (&str, u64), stat: &str) {
            for (name, value) in limits.iter().chain([&current]) {
                let text = format!("{}\n", value * MB);
                self.write(&format!("{folder}/{name}"), &text);
            }
            self.write(&format!("{folder}/memory.stat"), stat);
        }

        fn own(&self) -> ControlGroup {
            let root = self.0.to_str().unwrap();
            let file = PathBuffer::from_parts(&[root.as_bytes(), b"/cgroup"]);
            let mut group = ControlGroup::EMPTY;
            assert!(group.read_from(file.file(), root.as_bytes()));
            group
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    /// Check which line of /proc/self/cgroup is taken, on machines of each kind, and what of it.
    #[test]
    fn which_group() {
        let at = |text: &str| {
            let tree = Tree::new("which", text);
            let group = tree.own();
            let path = String::from_utf8(group.folder.without_nul().to_vec()).unwrap();
            path[tree.0.to_str().unwrap().len()..].to_owned()
        };
        assert_eq!(at("0::/\n"), "/sys/fs/cgroup");
        assert_eq!(at("0::/a.slice/b\n"), "/sys/fs/cgroup/a.slice/b");
        assert_eq!(at("0::/../other\n"), "/sys/fs/cgroup");
        let hybrid = "9:name=systemd:/x\n5:cpu,memory:/docker/1\n1:cpu:/c\n0::/u\n";
        assert_eq!(at(hybrid), "/sys/fs/cgroup/memory/docker/1");
        assert_eq!(at("1:name=memory:/x\n0::/u\n"), "/sys/fs/cgroup/u");
        assert_eq!(at(""), "/sys/fs/cgroup");
    }

    /// Check on the unified hierarchy that the lower of both limits counts, less the files that nobody uses,
    /// and that of each group above too.
    #[test]
    fn unified() {
        let tree = Tree::new("unified", "0::/a/b\n");
        let (a, b) = ("sys/fs/cgroup/a", "sys/fs/cgroup/a/b");
        let current = |mb| ("memory.current", mb);
        let idle = |mb: u64| {
            format!(
                "anon 1\ninactive_anon 5\ninactive_file {}\nactive_file 7\n",
                mb * MB
            )
        };
        let full = || tree.own().least_free(usize::MAX).is_none();
        assert!(!full());
        tree.write(&format!("{b}/memory.max"), "max\n");
        tree.group(b, &[], current(2000), &idle(0));
        assert!(!full());
        tree.group(b, &[("memory.max", 1600)], current(1501), &idle(0));
        assert!(full());
        tree.group(b, &[], current(1500), &idle(0));
        assert!(!full());
        tree.group(b, &[("memory.high", 1200)], current(1150), &idle(0));
        assert!(full());
        // Full of files.
        tree.group(b, &[], current(1200), &idle(100));
        assert!(!full());
        tree.group(b, &[], current(1200), "anon 1\n");
        assert!(full());
        tree.group(b, &[], current(100), &idle(0));
        assert!(!full());
        tree.group(a, &[("memory.max", 900)], current(880), &idle(20));
        assert!(full());
        tree.group(a, &[], current(880), &idle(600));
        assert!(!full());
        // More files than there is memory, as the two are not read at once.
        tree.group(a, &[], current(880), &idle(6000));
        assert!(!full());
    }

    /// Check the same on the first kind, and in a container that sees itself as the root.
    #[test]
    fn first() {
        let tree = Tree::new("first", "4:memory:/docker/1\n0::/\n");
        let root = "sys/fs/cgroup/memory";
        let limit = |mb| [("memory.limit_in_bytes", mb)];
        let current = |mb| ("memory.usage_in_bytes", mb);
        let idle = |mb: u64| {
            format!(
                "inactive_file {}\ntotal_inactive_file {}\n",
                900 * MB,
                mb * MB
            )
        };
        tree.group(root, &limit(1600), current(1590), &idle(0));
        assert!(tree.own().least_free(usize::MAX).is_none());
        tree.group(root, &limit(1600), current(1590), &idle(200));
        assert!(tree.own().least_free(usize::MAX).is_some());
        // No limit, as the kernel writes it.
        tree.write(
            &format!("{root}/memory.limit_in_bytes"),
            "9223372036854771712\n",
        );
        assert!(tree.own().least_free(usize::MAX).is_some());
        let own = format!("{root}/docker/1");
        tree.group(&own, &limit(100), current(99), &idle(1));
        assert!(tree.own().least_free(usize::MAX).is_none());
    }

    /// Check that a name that is too long, or has too many parts, is looked at as far as it goes.
    #[test]
    fn depth() {
        let deep = "/d".repeat(40);
        let tree = Tree::new("deep", &format!("0::{deep}\n"));
        let full = |levels: usize| {
            let folder = format!("sys/fs/cgroup{}", &deep[..2 * levels]);
            tree.group(&folder, &[("memory.max", 16)], ("memory.current", 16), "");
            tree.own().least_free(usize::MAX).is_none()
        };
        assert!(!full(40 - MAX_LEVELS));
        assert!(full(41 - MAX_LEVELS));
        let long = Tree::new("long", &format!("0::/{}\n", "x".repeat(700)));
        assert!(long.own().least_free(usize::MAX).is_some());
    }
}
