//! Files and guests that are mapped, and wait for their pages.

use quell_event::Mechanism;

use crate::advice::{AdviceEntry, SeenCost};

fn is_vmm(cost: &SeenCost) -> bool {
    cost.is_in("firecracker") || cost.is_within("kvm_ioctls::") || cost.is_within("vmm::")
}

/// Firecracker, whose guests' pages come from a handler after a snapshot.
pub(super) const FIRECRACKER_USERFAULT: AdviceEntry = AdviceEntry {
    id: "firecracker.userfault",
    what: "a guest that was resumed from a snapshot waits for each of its pages",
    seen_by: "faults that userfaultfd hands on, below Firecracker's code",
    mechanisms: &[Mechanism::Userfault],
    switch: "huge_pages: \"2M\" in /machine-config before the snapshot is made (512 times fewer faults; restored by userfaultfd \
             alone), and a handler that fills a whole region, or what the last run touched, at the first fault",
    why: "each 4 KB that the guest touches is a message to another process and back; Firecracker's own tests start up to 50 % \
          faster with 2 MB pages",
    source: "https://github.com/firecracker-microvm/firecracker/blob/main/docs/hugepages.md",
    instead_of: &[],
    look: |entry, scene| entry.costs(scene, is_vmm),
};

/// LMDB, whose file is mapped and larger than memory.
pub(super) const LMDB_READAHEAD: AdviceEntry = AdviceEntry {
    id: "lmdb.readahead",
    what: "LMDB waits for pages of its file",
    seen_by: "major faults below LMDB's functions (mdb_…)",
    mechanisms: &[Mechanism::FaultMajor],
    switch: "MDB_NORDAHEAD, where reads are at random and the file is larger than memory (OpenLDAP: envflags nordahead)",
    why: "the kernel reads on behind each page by default, and that pushes pages out which will be used; LMDB's manual names it \
          for this case",
    source: "https://docs.rs/lmdb/latest/lmdb/constant.NO_READAHEAD.html (LMDB's own words)",
    instead_of: &[],
    look: |entry, scene| {
        entry.costs(scene, |cost| {
            cost.stack.iter().any(|f| f.function.starts_with("mdb_"))
        })
    },
};

fn is_core(cost: &SeenCost) -> bool {
    cost.is_within("milvus::") || cost.is_in("libmilvus_core")
}

/// Milvus, which maps its segments.
pub(super) const MILVUS_POPULATE: AdviceEntry = AdviceEntry {
    id: "milvus.populate",
    what: "Milvus faults in segments that it has mapped, page by page",
    seen_by: "faults of file pages below Milvus' core",
    mechanisms: &[Mechanism::FaultFile, Mechanism::FaultMajor],
    switch: "queryNode.mmap.populate: true (the default where it is known: January 2026 and later)",
    why: "the pages of a segment are mapped as it is loaded, and first reads of it fault no more",
    source: "https://github.com/milvus-io/milvus/pull/46761",
    instead_of: &[],
    look: |entry, scene| entry.costs(scene, is_core),
};

/// RocksDB, with the option that reads its tables through mappings.
pub(super) const ROCKSDB_MMAP: AdviceEntry = AdviceEntry {
    id: "rocksdb.mmap-reads",
    what: "RocksDB waits for pages of tables that it has mapped",
    seen_by: "major faults below RocksDB's functions",
    mechanisms: &[Mechanism::FaultMajor],
    switch: "allow_mmap_reads=false (the default: pread, and its own cache)",
    why: "the kernel reads on behind each page: with 900 GB of tables and 256 GB of memory 5,543 reads a second by mappings, \
          275,519 by pread",
    source: "https://github.com/facebook/rocksdb/issues/9931 https://github.com/facebook/rocksdb/issues/507",
    instead_of: &[],
    look: |entry, scene| entry.costs(scene, |cost| cost.is_within("rocksdb::")),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::testing::{asleep, fires_by_evidence, scene};

    /// Check that it goes by the guest's faults.
    #[test]
    fn firecracker_userfault_goes_by_evidence() {
        let stack = "ioctl (firecracker) < kvm_ioctls::ioctls::vcpu::VcpuFd::run (firecracker)";
        let waiting = asleep(scene(&[(Mechanism::Userfault, stack)]));
        fires_by_evidence(&FIRECRACKER_USERFAULT, &waiting, "firecracker");
    }

    /// Check that it goes by LMDB's reads.
    #[test]
    fn lmdb_readahead_goes_by_evidence() {
        let stack = "mdb_node_search (liblmdb.so.0) < mdb_page_search_root (liblmdb.so.0) < mdb_get (liblmdb.so.0)";
        let waiting = asleep(scene(&[(Mechanism::FaultMajor, stack)]));
        fires_by_evidence(&LMDB_READAHEAD, &waiting, "slapd");
    }

    /// Check that it goes by the core's faults.
    #[test]
    fn milvus_populate_goes_by_evidence() {
        let stack = "milvus::exec::Filter::GetOutput() (libmilvus_core.so) < milvus::query::Visit() (libmilvus_core.so)";
        let waiting = asleep(scene(&[(Mechanism::FaultMajor, stack)]));
        fires_by_evidence(&MILVUS_POPULATE, &waiting, "milvus");
    }

    /// Check that it goes by RocksDB's reads.
    #[test]
    fn rocksdb_mmap_goes_by_evidence() {
        let stack = "rocksdb::crc32c::ExtendImpl(unsigned int, char const*) (librocksdb.so.7) < \
                     rocksdb::BlockFetcher::ReadBlockContents() (librocksdb.so.7)";
        let waiting = asleep(scene(&[(Mechanism::FaultMajor, stack)]));
        fires_by_evidence(&ROCKSDB_MMAP, &waiting, "db_bench");
    }
}
