//! LMDB, whose file is mapped and larger than memory.

use quell_event::Mechanism;

use crate::advice::{AdviceEntry, Sight};

const TOUCHED_MECHANISMS: &[Mechanism] = &[Mechanism::FaultMajor];

pub(super) const ADVICE_ENTRY: AdviceEntry = AdviceEntry {
    id: "lmdb.readahead",
    what: "LMDB waits for pages of its file",
    seen_by: "major faults below LMDB's functions (mdb_…)",
    mechanisms: TOUCHED_MECHANISMS,
    switch: "MDB_NORDAHEAD, where reads are at random and the file is larger than memory (OpenLDAP: envflags nordahead)",
    why: "the kernel reads on behind each page by default, and that pushes pages out which will be used; LMDB's manual names it \
          for this case",
    source: "https://docs.rs/lmdb/latest/lmdb/constant.NO_READAHEAD.html (LMDB's own words)",
    instead_of: &[],
    look: |scene| {
        Sight::of_costs(scene.costs_of(TOUCHED_MECHANISMS, |cost| {
            cost.stack.iter().any(|f| f.function.starts_with("mdb_"))
        }))
    },
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::testing::{asleep, fires_by_evidence, scene};

    /// Check that it goes by LMDB's reads.
    #[test]
    fn goes_by_evidence() {
        let stack = "mdb_node_search (liblmdb.so.0) < mdb_page_search_root (liblmdb.so.0) < mdb_get (liblmdb.so.0)";
        let waiting = asleep(scene(&[(Mechanism::FaultMajor, stack)]));
        fires_by_evidence(&ADVICE_ENTRY, &waiting, "slapd");
    }
}
