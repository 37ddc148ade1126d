//! RocksDB, with the option that reads its tables through mappings.

use quell_event::Mechanism;

use crate::advice::{AdviceEntry, Sight};

const TOUCHED_MECHANISMS: &[Mechanism] = &[Mechanism::FaultMajor];

pub(super) const ADVICE_ENTRY: AdviceEntry = AdviceEntry {
    id: "rocksdb.mmap-reads",
    what: "RocksDB waits for pages of tables that it has mapped",
    seen_by: "major faults below RocksDB's functions",
    mechanisms: TOUCHED_MECHANISMS,
    switch: "allow_mmap_reads=false (the default: pread, and its own cache)",
    why: "the kernel reads on behind each page: with 900 GB of tables and 256 GB of memory 5,543 reads a second by mappings, \
          275,519 by pread",
    source: "https://github.com/facebook/rocksdb/issues/9931 https://github.com/facebook/rocksdb/issues/507",
    instead_of: &[],
    look: |scene| {
        Sight::of_costs(scene.costs_of(TOUCHED_MECHANISMS, |cost| cost.is_within("rocksdb::")))
    },
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::testing::{asleep, fires_by_evidence, scene};

    /// Check that it goes by RocksDB's reads.
    #[test]
    fn goes_by_evidence() {
        let stack = "rocksdb::crc32c::ExtendImpl(unsigned int, char const*) (librocksdb.so.7) < \
                     rocksdb::BlockFetcher::ReadBlockContents() (librocksdb.so.7)";
        let waiting = asleep(scene(&[(Mechanism::FaultMajor, stack)]));
        fires_by_evidence(&ADVICE_ENTRY, &waiting, "db_bench");
    }
}
