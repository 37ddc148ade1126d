//! Monitors that read the mappings of a process page by page.

use quell_event::Mechanism;

use super::clear_refs::clearing_pids;
use crate::advice::{AdviceEntry, SeenHolder, Sight};

/// Files of a process whose reader walks its page tables with the lock held.
const WALKING_FILES: &[&str] = &["/smaps", "/smaps_rollup", "/numa_maps", "/pagemap"];

fn walks_page_tables(holder: &SeenHolder) -> bool {
    holder.doing.starts_with("read /proc/")
        && WALKING_FILES
            .iter()
            .any(|file| holder.doing.ends_with(file))
}

pub(super) const ADVICE_ENTRY: AdviceEntry = AdviceEntry {
    id: "proc.smaps",
    what: "another process reads this one's smaps, and holds its lock meanwhile",
    seen_by: "waits for the lock of an address space that who reads /proc/PID/smaps, smaps_rollup, numa_maps or pagemap holds",
    mechanisms: &[Mechanism::LockMmap],
    switch: "process-exporter: -gather-smaps=false; Telegraf's procstat: properties without `mmap`; htop: no columns PSS, SWAP \
             and SWAPPSS; of another monitor the same figures, or more seldom",
    why: "all page tables are walked: 4.5 s for a process of 200 GB, every 30 s; whoever maps waits, and who touches a new \
          page waits behind him",
    source: "https://github.com/ncabatoff/process-exporter/issues/246 https://github.com/influxdata/telegraf/issues/15295",
    instead_of: &[],
    look: |scene| {
        let told = clearing_pids(scene);
        let readers = scene.holders.iter().filter(|h| {
            h.mechanism == Mechanism::LockMmap && walks_page_tables(h) && !told.contains(&h.pid)
        });
        Sight::of_holders(readers)
    },
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::testing::{fires_by_evidence, is_quiet, waits_for};

    /// Check that the holder's call fires it, and that quell's own look at the maps doesn't.
    #[test]
    fn goes_by_evidence() {
        let scene = waits_for("process-exporte", "read /proc/12/smaps_rollup");
        let advised = fires_by_evidence(&ADVICE_ENTRY, &scene, "mysqld");
        assert_eq!(advised.place, "process-exporte: read /proc/12/smaps_rollup");
        is_quiet(&ADVICE_ENTRY, &waits_for("ps", "read /proc/12/maps"));
    }
}
