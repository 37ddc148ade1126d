//! Counters, nodes and the settings of transparent huge pages, for the rules about memory.

pub(super) use crate::rules::THP_ENABLED_FILE;
use crate::rules::prelude::*;

/// The setting of huge pages for memory that is shared.
pub(super) const THP_SHMEM_FILE: &str = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
const THP_FOLDER: &str = "/sys/kernel/mm/transparent_hugepage";
const ONLINE_NODES_FILE: &str = "/sys/devices/system/node/online";

/// How much these counters have grown together; `None` if nobody looked twice, or the kernel has none of them.
pub(super) fn total_growth(look: &SystemView<'_>, counters: &[&str]) -> Option<u64> {
    let known = counters
        .iter()
        .filter_map(|name| look.evidence.growth_of(name));
    known.fold(None, |sum, n| Some(sum.unwrap_or(0) + n))
}

/// A counter of /proc/vmstat, with the line that goes into the finding.
pub(super) fn read_vmstat(look: &SystemView<'_>, name: &str) -> (Option<u64>, FileReading) {
    let file = look.file("/proc/vmstat");
    let value: Option<u64> = file.field(name).and_then(|n| n.parse().ok());
    let shown = file.shown_part(value.map(|n| n.to_string()));
    (
        value,
        FileReading::new(format!("/proc/vmstat {name}"), shown),
    )
}

/// How many nodes of memory are online; `None` if that can't be read.
pub(super) fn count_nodes(look: &SystemView<'_>) -> (Option<usize>, FileReading) {
    let (value, read) = look.read(ONLINE_NODES_FILE);
    let list = value
        .text()
        .and_then(|text| cpus::parse_cpu_list(text.trim()));
    (list.map(|l| l.len()).filter(|&n| n > 0), read)
}

/// A setting of one size of transparent huge pages.
pub(super) struct ThpSizeSetting {
    pub(super) path: String,
    pub(super) value: FileValue,
    pub(super) read: FileReading,
}

/// This setting of every size that has it: none before Linux 6.8.
pub(super) fn thp_size_settings(look: &SystemView<'_>, setting: &str) -> Vec<ThpSizeSetting> {
    let folders = look.files_in(THP_FOLDER, |name| name.starts_with("hugepages-"));
    let sizes = folders.into_iter().map(|folder| {
        let path = format!("{folder}/{setting}");
        let (value, read) = look.read(&path);
        ThpSizeSetting { path, value, read }
    });
    // a size may be for shared memory only
    sizes.filter(|s| s.value != FileValue::Absent).collect()
}

/// Whether any program may be given transparent huge pages, of whatever size; `None` if that can't be read.
/// By these the kernel decides whether khugepaged runs (mm/khugepaged.c, hugepage_pmd_enabled).
pub(super) fn is_thp_given(look: &SystemView<'_>) -> Option<bool> {
    let all = [THP_ENABLED_FILE, THP_SHMEM_FILE].map(|path| look.file(path));
    let of_sizes = ["enabled", "shmem_enabled"].map(|setting| thp_size_settings(look, setting));
    let of_sizes = of_sizes.into_iter().flatten().map(|s| s.value);
    let (mut given, mut unread) = (false, false);
    for value in all.into_iter().chain(of_sizes) {
        match (value.chosen_word(), &value) {
            // a size that inherits has the setting for all
            (Some("never" | "deny" | "inherit"), _) | (None, FileValue::Absent) => {}
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
