//! Whether huge pages are to be had.

use std::fs;

use crate::memory::{HUGE_PAGE_BYTES, LabMapping};

/// Why this process can't have huge pages, if it can't: found out by taking one.
pub(super) fn no_huge_pages() -> Option<String> {
    let area = match LabMapping::with_huge_pages(HUGE_PAGE_BYTES, true) {
        Ok(area) => area,
        Err(err) => return Some(err.to_string()),
    };
    area.fill_pages();
    let rollup = fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    let has = |line: &str| {
        let kb = line.strip_prefix("AnonHugePages:").unwrap_or_default();
        !matches!(kb.trim().trim_end_matches("kB").trim(), "" | "0")
    };
    (!rollup.lines().any(has)).then(|| {
        "the kernel gave no huge page (/sys/kernel/mm/transparent_hugepage/enabled)".to_owned()
    })
}
