//! What rules about memory share: counters, nodes, and who is given transparent huge pages.

use quell_host::cpus;

use crate::finding::Read;
use crate::look::{Look, Value};
pub(super) use crate::rules::THP_ENABLED;

/// The setting of huge pages for memory that is shared.
pub(super) const THP_SHMEM: &str = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
const THP: &str = "/sys/kernel/mm/transparent_hugepage";
const NODES: &str = "/sys/devices/system/node/online";

/// How much these counters have grown together; `None` if nobody looked twice, or the kernel has none of them.
pub(super) fn grown(look: &Look<'_>, counters: &[&str]) -> Option<u64> {
    let known = counters
        .iter()
        .filter_map(|name| look.evidence().grown(name));
    known.fold(None, |sum, n| Some(sum.unwrap_or(0) + n))
}

/// A counter of /proc/vmstat, and what of it goes into the finding.
pub(super) fn vmstat(look: &Look<'_>, name: &str) -> (Option<u64>, Read) {
    let file = look.file("/proc/vmstat");
    let mut lines = file.text().unwrap_or_default().lines();
    let value: Option<u64> =
        lines.find_map(|l| l.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok());
    let shown = file.part(value.map(|n| n.to_string()));
    (value, Read::new(format!("/proc/vmstat {name}"), shown))
}

/// How many nodes of memory are online; `None` if that can't be read.
pub(super) fn nodes(look: &Look<'_>) -> (Option<usize>, Read) {
    let (value, read) = look.read(NODES);
    let list = value.text().and_then(|text| cpus::list(text.trim()));
    (list.map(|l| l.len()).filter(|&n| n > 0), read)
}

/// A setting of one size of transparent huge pages.
pub(super) struct Size {
    pub(super) path: String,
    pub(super) value: Value,
    pub(super) read: Read,
}

/// This setting of every size that has it: none before Linux 6.8.
pub(super) fn sizes(look: &Look<'_>, setting: &str) -> Vec<Size> {
    let folders = look.list(THP, |name| name.starts_with("hugepages-"));
    let sizes = folders.into_iter().map(|folder| {
        let path = format!("{folder}/{setting}");
        let (value, read) = look.read(&path);
        Size { path, value, read }
    });
    // a size may be for shared memory only
    sizes.filter(|s| s.value != Value::Absent).collect()
}

/// Whether any program may be given transparent huge pages, of whatever size; `None` if that can't be read.
/// By these the kernel decides whether khugepaged runs (mm/khugepaged.c, hugepage_pmd_enabled).
pub(super) fn thp_given(look: &Look<'_>) -> Option<bool> {
    let all = [THP_ENABLED, THP_SHMEM].map(|path| look.file(path));
    let of_sizes = ["enabled", "shmem_enabled"].map(|setting| sizes(look, setting));
    let of_sizes = of_sizes.into_iter().flatten().map(|s| s.value);
    let (mut given, mut unread) = (false, false);
    for value in all.into_iter().chain(of_sizes) {
        match (value.chosen(), &value) {
            // what is inherited is the setting for all
            (Some("never" | "deny" | "inherit"), _) | (None, Value::Absent) => {}
            (Some(_), _) => given = true,
            (None, _) => unread = true,
        }
    }
    match (given, unread) {
        (true, _) => Some(true),
        (false, true) => None,
        (false, false) => Some(false),
    }
}
