//! bbolt, which maps its file anew as that grows.

use quell_event::Mechanism;

use super::bbolt_populate::is_database_open;
use crate::advice::{AdviceEntry, SeenCost, Sight};

const TOUCHED_MECHANISMS: &[Mechanism] = &[
    Mechanism::Map,
    Mechanism::Unmap,
    Mechanism::Populate,
    Mechanism::FaultMajor,
    Mechanism::LockMmap,
    Mechanism::ShootdownWait,
];

fn is_remap(cost: &SeenCost) -> bool {
    const MAPPING_FUNCTIONS: &[&str] = &[
        "bolt.(*DB).mmap",
        "bolt.(*DB).munmap",
        "bolt.mmap",
        "bolt.munmap",
    ];
    MAPPING_FUNCTIONS.iter().any(|part| cost.is_within(part)) && !is_database_open(cost)
}

pub(super) const ADVICE_ENTRY: AdviceEntry = AdviceEntry {
    id: "bbolt.remap",
    what: "bbolt maps its file anew each time that it outgrows the mapping",
    seen_by: "mmap and munmap, and reads for MAP_POPULATE, below bbolt's (*DB).mmap, after the file is open",
    mechanisms: TOUCHED_MECHANISMS,
    switch: "Options.InitialMmapSize larger than the file will ever be (address space, not memory)",
    why: "before it maps anew, a write waits for every open read; with MAP_POPULATE the whole file is read again each time",
    source: "https://github.com/boltdb/bolt/pull/472 https://github.com/etcd-io/bbolt/issues/86",
    instead_of: &["bbolt.random-advice"],
    look: |scene| Sight::of_costs(scene.costs_of(TOUCHED_MECHANISMS, is_remap)),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::testing::{fires_by_evidence, scene};

    /// Check that it goes by bbolt's mapping.
    #[test]
    fn goes_by_evidence() {
        let stack = "syscall.Syscall6 (db) < go.etcd.io/bbolt.mmap (db) < go.etcd.io/bbolt.(*DB).mmap (db) < \
                     go.etcd.io/bbolt.(*DB).allocate (db)";
        fires_by_evidence(&ADVICE_ENTRY, &scene(&[(Mechanism::Populate, stack)]), "db");
    }
}
