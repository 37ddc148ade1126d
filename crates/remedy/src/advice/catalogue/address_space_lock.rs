//! Holders of the lock of an address space.

use quell_event::{HolderRow, Mechanism};

use crate::advice::{AdviceEntry, Scene, Sight};

/// Writes to /proc/PID/clear_refs.
fn clears_refs(holder: &HolderRow) -> bool {
    holder.doing.starts_with("write /proc/") && holder.doing.ends_with("/clear_refs")
}

/// The processes that do, which mostly read smaps after it.
fn clearing_pids(scene: &Scene) -> Vec<u32> {
    let holders = scene.holders.iter().filter(|h| clears_refs(h));
    holders.map(|h| h.holder_pid).collect()
}

/// cAdvisor and others that clear the accessed bits of a process.
pub(super) const REFS_CLEARING: AdviceEntry = AdviceEntry {
    id: "proc.clear-refs",
    what: "another process clears the accessed bits of this one's pages, and holds its lock meanwhile",
    seen_by: "waits for the lock of an address space that who writes /proc/PID/clear_refs holds",
    mechanisms: &[Mechanism::LockMmap],
    switch: "cAdvisor: --disable_metrics=referenced_memory (container_referenced_bytes is on by default); of another monitor \
             the same metric",
    why: "it walks all page tables with the lock held for writing, so that mmap, munmap and first touches wait: worst requests \
          went from 60 ms to 5 s on 5,000 instances of 100 GB, and back without the metric",
    source: "https://github.com/google/cadvisor/issues/3679 https://github.com/google/cadvisor/issues/3670",
    instead_of: &[],
    look: |_, scene| {
        let clearers = clearing_pids(scene);
        let theirs = scene.holders.iter().filter(|h| {
            h.mechanism == Mechanism::LockMmap
                && clearers.contains(&h.holder_pid)
                && h.doing.contains(" /proc/")
        });
        let clearing = scene.holders.iter().filter(|h| clears_refs(h));
        let place = Sight::of_holders(clearing)?.place;
        Some(Sight {
            place,
            ..Sight::of_holders(theirs)?
        })
    },
};

/// Files of a process whose reader walks its page tables with the lock held.
const WALKING_FILES: &[&str] = &["/smaps", "/smaps_rollup", "/numa_maps", "/pagemap"];

fn walks_page_tables(holder: &HolderRow) -> bool {
    holder.doing.starts_with("read /proc/")
        && WALKING_FILES
            .iter()
            .any(|file| holder.doing.ends_with(file))
}

/// Monitors that read the mappings of a process page by page.
pub(super) const SMAPS_READING: AdviceEntry = AdviceEntry {
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
    look: |_, scene| {
        let told = clearing_pids(scene);
        let readers = scene.holders.iter().filter(|h| {
            h.mechanism == Mechanism::LockMmap
                && h.holder_pid != h.pid
                && walks_page_tables(h)
                && !told.contains(&h.holder_pid)
        });
        Sight::of_holders(readers)
    },
};

/// These change the mapping, and take the lock of the address space for writing.
const CHANGING_ADVICE: &[&str] = &["MADV_NORMAL", "MADV_RANDOM", "MADV_SEQUENTIAL"];

fn changes_read_advice(holder: &HolderRow) -> bool {
    let Some(advice) = holder.doing.strip_prefix("madvise(") else {
        return false;
    };
    CHANGING_ADVICE
        .iter()
        .any(|name| advice.starts_with(&format!("{name})")))
}

/// Advice on read-ahead that is given again and again.
pub(super) const READ_ADVICE: AdviceEntry = AdviceEntry {
    id: "mmap.read-advice",
    what: "threads change the read-ahead advice of mappings as they work, and all others wait for the lock",
    seen_by: "waits for the lock of an address space that its own madvise(MADV_NORMAL, MADV_RANDOM or MADV_SEQUENTIAL) holds",
    mechanisms: &[Mechanism::LockMmap, Mechanism::Advise],
    switch: "give the advice once, when the file is mapped, and not for each query; Lucene, Elasticsearch and OpenSearch: \
             -Dorg.apache.lucene.store.defaultReadAdvice=NORMAL",
    why: "such advice takes the lock for writing though it moves no page: 40 search threads stood in mincore behind 6 in \
          madvise, queues full at half the CPU; the case as a small program does 3 times the work with the advice given once",
    source: "https://github.com/opensearch-project/OpenSearch/issues/20933",
    instead_of: &["lucene.prefetch"],
    look: |_, scene| {
        let own = scene.holders.iter().filter(|h| {
            h.mechanism == Mechanism::LockMmap && h.holder_pid == h.pid && changes_read_advice(h)
        });
        let mut sight = Sight::of_holders(own)?;
        let given = scene
            .given
            .iter()
            .filter(|c| CHANGING_ADVICE.contains(&c.advice.as_str()));
        sight.cpu_ns = given.map(|c| c.cpu_ns).sum();
        Some(sight)
    },
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::advise;
    use crate::advice::testing::{fires, fires_by_evidence, is_quiet, recorded, waits_for};

    /// Check that the monitor is named with its call, and that its reading of smaps is no advice of its own.
    #[test]
    fn fires_on_a_monitor() {
        let scene = recorded("04-cadvisor-clear-refs");
        let advised = fires(&REFS_CLEARING, &scene);
        assert!(
            advised.place.starts_with("python3: write /proc/"),
            "{advised:?}"
        );
        assert!(advised.because.contains("the longest"), "{advised:?}");
        assert_eq!(advise(&scene).len(), 1);
    }

    /// Check that the holder's call fires it.
    #[test]
    fn clear_refs_goes_by_evidence() {
        let scene = waits_for("cadvisor", "write /proc/12/clear_refs");
        fires_by_evidence(&REFS_CLEARING, &scene, "victim");
    }

    /// Check that the holder's call fires it, but neither quell's own look at the maps nor a program that reads its own.
    #[test]
    fn smaps_goes_by_evidence() {
        let scene = waits_for("process-exporte", "read /proc/12/smaps_rollup");
        let advised = fires_by_evidence(&SMAPS_READING, &scene, "mysqld");
        assert_eq!(advised.place, "process-exporte: read /proc/12/smaps_rollup");
        is_quiet(&SMAPS_READING, &waits_for("ps", "read /proc/12/maps"));
        let mut own = scene;
        own.holders[0].holder_pid = own.holders[0].pid;
        is_quiet(&SMAPS_READING, &own);
    }

    /// Check that it names the threads that change the advice, and not the many that wait in mincore.
    #[test]
    fn fires_on_a_convoy() {
        let advised = fires(&READ_ADVICE, &recorded("06-madvise-convoy"));
        assert!(
            advised.place.contains("convoy: madvise(MADV_"),
            "{advised:?}"
        );
        assert!(advised.blocked_ns > 1_000_000_000, "{advised:?}");
    }

    /// Check that advice that frees pages is another matter, and so is another process.
    #[test]
    fn read_advice_goes_by_evidence() {
        let mut own = waits_for("search", "madvise(MADV_RANDOM) of 16 pages");
        is_quiet(&READ_ADVICE, &own);
        own.holders[0].holder_pid = own.holders[0].pid;
        fires(&READ_ADVICE, &own);
        own.holders[0].doing = "madvise(MADV_DONTNEED) of 16 pages".into();
        is_quiet(&READ_ADVICE, &own);
    }
}
