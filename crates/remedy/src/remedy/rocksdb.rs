//! RocksDB: files that are mapped to be read.

use quell_event::Cause;

use super::{Offer, Remedy, RemedyAnswer, RemedyCase};
use crate::{SoftwareKind, Touches};

/// Reads files, instead of mapping and unmapping them.
pub(super) struct RocksDb;

impl Remedy for RocksDb {
    fn id(&self) -> &'static str {
        "rocksdb.options"
    }

    fn stops(&self) -> &'static str {
        "munmap of table files when they are closed, and the write-back of mapped ones"
    }

    fn worse(&self) -> &'static str {
        "data that is all in memory, which mapped reads serve without a copy"
    }

    fn source(&self) -> &'static str {
        "facebook/rocksdb include/rocksdb/options.h: allow_mmap_reads, allow_mmap_writes (both false by default). Not measured here"
    }

    fn touches(&self, _offer: &Offer) -> Touches {
        Touches::NOTHING
    }

    fn consider(&self, case: &RemedyCase<'_>) -> Option<RemedyAnswer> {
        case.program_of_kinds(&[SoftwareKind::RocksDb])?;
        let part = case.part_of_causes(&[Cause::Munmap, Cause::Writeback, Cause::Truncate]);
        (part >= 0.2).then(|| {
            RemedyAnswer::advise(
                &["allow_mmap_reads=false", "allow_mmap_writes=false"],
                "under [DBOptions] of its OPTIONS file, or by the program's own settings, if they are on (the report \
                 shows .sst files as regions then). Not measured here",
            )
        })
    }
}
