//! bbolt, a database in one mapped file.

use quell_event::Mechanism;

use crate::advice::{AdviceEntry, SeenCost};

fn is_bbolt(cost: &SeenCost) -> bool {
    cost.is_within("go.etcd.io/bbolt.") || cost.is_within("boltdb/bolt.")
}

/// The file is opened, which finds the free pages.
fn is_database_open(cost: &SeenCost) -> bool {
    const OPENING_FUNCTIONS: &[&str] = &[
        "bolt.Open",
        "bolt.(*DB).freepages",
        "bolt.(*DB).loadFreelist",
    ];
    is_bbolt(cost) && OPENING_FUNCTIONS.iter().any(|part| cost.is_within(part))
}

/// bbolt, which reads its free list page by page as it opens a file.
pub(super) const BBOLT_POPULATE: AdviceEntry = AdviceEntry {
    id: "bbolt.populate",
    what: "bbolt opens a file and waits for its pages one by one",
    seen_by: "major faults below bbolt's Open and its search for free pages",
    mechanisms: &[Mechanism::FaultMajor],
    switch: "Options.MmapFlags: syscall.MAP_POPULATE where the file fits into memory (Vault: VAULT_RAFT_ENABLE_MAP_POPULATE)",
    why: "the file is then read in order: 2 GB took 4 s in place of 8 on an SSD, 8 s in place of 130 on a disk; a vault of 300 MB \
          opened in 2 to 6 s in place of 12 to 47",
    source: "https://github.com/boltdb/bolt/pull/455 https://github.com/hashicorp/vault/pull/13573",
    instead_of: &["go.mapped-file"],
    look: |entry, scene| entry.costs(scene, is_database_open),
};

/// bbolt, whose advice makes newer kernels drop pages that are in use.
pub(super) const BBOLT_RANDOM: AdviceEntry = AdviceEntry {
    id: "bbolt.random-advice",
    what: "bbolt waits for pages of its file that had been in memory",
    seen_by: "major faults below bbolt's code, after the file is open",
    mechanisms: &[Mechanism::FaultMajor],
    switch: "a bbolt without madvise(MADV_RANDOM) (etcd-io/bbolt#940 takes it out), more memory for the page cache of its cgroup, \
             or reading the file now and then, which marks pages as used",
    why: "from Linux 6.4 on reclaim does not look whether pages with that advice are in use: a compaction that took 0.9 s took \
          20 s, with 600 major faults a second in place of none",
    source: "https://github.com/etcd-io/bbolt/issues/939 https://github.com/etcd-io/bbolt/pull/940",
    instead_of: &["go.mapped-file"],
    look: |entry, scene| entry.costs(scene, |cost| is_bbolt(cost) && !is_database_open(cost)),
};

fn is_remap(cost: &SeenCost) -> bool {
    const MAPPING_FUNCTIONS: &[&str] = &[
        "bolt.(*DB).mmap",
        "bolt.(*DB).munmap",
        "bolt.mmap",
        "bolt.munmap",
    ];
    MAPPING_FUNCTIONS.iter().any(|part| cost.is_within(part)) && !is_database_open(cost)
}

/// bbolt, which maps its file anew as that grows.
pub(super) const BBOLT_REMAP: AdviceEntry = AdviceEntry {
    id: "bbolt.remap",
    what: "bbolt maps its file anew each time that it outgrows the mapping",
    seen_by: "mmap and munmap, and reads for MAP_POPULATE, below bbolt's (*DB).mmap, after the file is open",
    mechanisms: &[
        Mechanism::Map,
        Mechanism::Unmap,
        Mechanism::Populate,
        Mechanism::FaultMajor,
        Mechanism::LockMmap,
        Mechanism::ShootdownWait,
    ],
    switch: "Options.InitialMmapSize larger than the file will ever be (address space, not memory)",
    why: "before it maps anew, a write waits for every open read; with MAP_POPULATE the whole file is read again each time",
    source: "https://github.com/boltdb/bolt/pull/472 https://github.com/etcd-io/bbolt/issues/86",
    instead_of: &["bbolt.random-advice"],
    look: |entry, scene| entry.costs(scene, is_remap),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::advise;
    use crate::advice::testing::{asleep, fires_by_evidence, is_quiet, scene, with_file};

    /// Check that the opening fires it, and that it replaces the entry for any Go program.
    #[test]
    fn bbolt_populate_goes_by_evidence() {
        let stack = "go.etcd.io/bbolt.(*DB).freepages (vault) < go.etcd.io/bbolt.Open (vault) < runtime.goexit.abi0 (vault)";
        let opening = asleep(scene(&[(Mechanism::FaultMajor, stack)]));
        let opening = with_file(opening, "/vault/raft.db");
        fires_by_evidence(&BBOLT_POPULATE, &opening, "vault");
        assert_eq!(advise(&opening).len(), 1);
    }

    /// Check that it goes by bbolt's reads, and not by those as it opens the file.
    #[test]
    fn bbolt_random_goes_by_evidence() {
        let made = |stack| asleep(scene(&[(Mechanism::FaultMajor, stack)]));
        let stack = "go.etcd.io/bbolt.(*Cursor).search (etcd) < go.etcd.io/bbolt.(*DB).View (etcd) < runtime.goexit (etcd)";
        fires_by_evidence(&BBOLT_RANDOM, &made(stack), "etcd");
        is_quiet(
            &BBOLT_RANDOM,
            &made("go.etcd.io/bbolt.(*DB).freepages (etcd) < go.etcd.io/bbolt.Open (etcd)"),
        );
    }

    /// Check that it goes by bbolt's mapping.
    #[test]
    fn bbolt_remap_goes_by_evidence() {
        let stack = "syscall.Syscall6 (db) < go.etcd.io/bbolt.mmap (db) < go.etcd.io/bbolt.(*DB).mmap (db) < \
                     go.etcd.io/bbolt.(*DB).allocate (db)";
        fires_by_evidence(&BBOLT_REMAP, &scene(&[(Mechanism::Populate, stack)]), "db");
    }
}
