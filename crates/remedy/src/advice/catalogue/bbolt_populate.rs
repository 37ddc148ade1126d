//! bbolt, which reads its free list page by page as it opens a file.

use quell_event::Mechanism;

use crate::advice::{AdviceEntry, SeenCost, Sight};

const TOUCHED_MECHANISMS: &[Mechanism] = &[Mechanism::FaultMajor];

pub(super) fn is_bbolt(cost: &SeenCost) -> bool {
    cost.is_within("go.etcd.io/bbolt.") || cost.is_within("boltdb/bolt.")
}

/// The file is opened, which finds the free pages.
pub(super) fn is_database_open(cost: &SeenCost) -> bool {
    const OPENING_FUNCTIONS: &[&str] = &[
        "bolt.Open",
        "bolt.(*DB).freepages",
        "bolt.(*DB).loadFreelist",
    ];
    is_bbolt(cost) && OPENING_FUNCTIONS.iter().any(|part| cost.is_within(part))
}

pub(super) const ADVICE_ENTRY: AdviceEntry = AdviceEntry {
    id: "bbolt.populate",
    what: "bbolt opens a file and waits for its pages one by one",
    seen_by: "major faults below bbolt's Open and its search for free pages",
    mechanisms: TOUCHED_MECHANISMS,
    switch: "Options.MmapFlags: syscall.MAP_POPULATE where the file fits into memory (Vault: VAULT_RAFT_ENABLE_MAP_POPULATE)",
    why: "the file is then read in order: 2 GB took 4 s in place of 8 on an SSD, 8 s in place of 130 on a disk; a vault of 300 MB \
          opened in 2 to 6 s in place of 12 to 47",
    source: "https://github.com/boltdb/bolt/pull/455 https://github.com/hashicorp/vault/pull/13573",
    instead_of: &["go.mapped-file"],
    look: |scene| Sight::of_costs(scene.costs_of(TOUCHED_MECHANISMS, is_database_open)),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::testing::{asleep, fires_by_evidence, scene, with_file};

    /// Check that the opening fires it, and that it replaces the entry for any Go program.
    #[test]
    fn goes_by_evidence() {
        let stack = "go.etcd.io/bbolt.(*DB).freepages (vault) < go.etcd.io/bbolt.Open (vault) < runtime.goexit.abi0 (vault)";
        let opening = asleep(scene(&[(Mechanism::FaultMajor, stack)]));
        let opening = with_file(opening, "/vault/raft.db");
        fires_by_evidence(&ADVICE_ENTRY, &opening, "vault");
        assert_eq!(crate::advice::advise(&opening).len(), 1);
    }
}
