//! How much memory this process can have.

use std::fs;
use std::path::Path;

/// Bytes that the machine has without swapping (proc(5), MemAvailable), or that are left of the process's control groups'
/// limits where that is less. Nothing where the kernel does not say.
#[must_use]
pub fn available_bytes() -> Option<u64> {
    let info = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = info.lines().find_map(|line| {
        let value = line.strip_prefix("MemAvailable:")?.trim();
        value.strip_suffix("kB")?.trim().parse::<u64>().ok()
    });
    let machine = kib.map(|kib| kib.saturating_mul(1024));
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let group = available_bytes_in_groups(Path::new("/sys/fs/cgroup"), &groups);
    machine.into_iter().chain(group).min()
}

/// The least that is left in any group on the way up (Documentation/admin-guide/cgroup-v2.rst, memory.max), or in the
/// memory group of version 1.
fn available_bytes_in_groups(root: &Path, groups: &str) -> Option<u64> {
    let mut least: Option<u64> = None;
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else {
            continue;
        };
        let (root, names) = match controllers {
            "" => (root.to_owned(), ["memory.max", "memory.current"]),
            some if some.split(',').any(|c| c == "memory") => (
                root.join("memory"),
                ["memory.limit_in_bytes", "memory.usage_in_bytes"],
            ),
            _ => continue,
        };
        let mut folder = root.join(path.trim_start_matches('/'));
        while folder.starts_with(&root) {
            let number = |name: &str| -> Option<u64> {
                let text = fs::read_to_string(folder.join(name)).ok()?;
                text.trim().parse().ok()
            };
            if let (Some(most), Some(used)) = (number(names[0]), number(names[1])) {
                let used = used.saturating_sub(idle_cache(&folder));
                let left = most.saturating_sub(used);
                least = Some(least.map_or(left, |least| least.min(left)));
            }
            if !folder.pop() {
                break;
            }
        }
    }
    least
}

/// Cached files that nobody has used lately: they go when memory is wanted.
fn idle_cache(folder: &Path) -> u64 {
    let text = fs::read_to_string(folder.join("memory.stat")).unwrap_or_default();
    let bytes = text.lines().find_map(|line| {
        let value = line.strip_prefix("inactive_file ")?;
        value.trim().parse().ok()
    });
    bytes.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that the least of all limits on the way up counts, in both versions, less the memory that is in use and not idle.
    #[test]
    fn groups_bound_memory() {
        let root = std::env::temp_dir().join(format!("quell-host-memory-{}", std::process::id()));
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("a/b/memory.max", "max\n");
        write("a/b/memory.current", "5\n");
        write("a/memory.max", "1000\n");
        write("a/memory.current", "700\n");
        write("a/memory.stat", "anon 1\ninactive_file 200\n");
        write("memory/c/memory.limit_in_bytes", "900\n");
        write("memory/c/memory.usage_in_bytes", "100\n");
        assert_eq!(available_bytes_in_groups(&root, "0::/a/b\n"), Some(500));
        assert_eq!(
            available_bytes_in_groups(&root, "3:cpu:/\n2:memory:/c\n"),
            Some(800)
        );
        assert_eq!(available_bytes_in_groups(&root, "0::/none\nnonsense"), None);
        fs::remove_dir_all(&root).unwrap();
    }
}
