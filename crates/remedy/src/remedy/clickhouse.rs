//! ClickHouse: keep its watchdog of memory from making jemalloc give back.

use quell_event::Cause;

use super::{Offer, Remedy, RemedyAnswer, RemedyCase};
use crate::{SoftwareKind, Touches};

/// Its jemalloc is tuned as any other; but a thread of the server's changes decay meanwhile.
pub(super) struct ClickHouse;

impl Remedy for ClickHouse {
    fn id(&self) -> &'static str {
        "clickhouse.config"
    }

    fn stops(&self) -> &'static str {
        "the purges by which the server's memory worker overrides jemalloc's decay when memory runs short"
    }

    fn worse(&self) -> &'static str {
        "a server near its memory limit: the purges are what keeps it below"
    }

    fn source(&self) -> &'static str {
        "clickhouse.com/docs, server settings: memory_worker_decay_adjustment_period_ms, memory_worker_purge_dirty_pages_threshold_ratio; session settings: min_bytes_to_use_mmap_io. Not measured here"
    }

    fn touches(&self, _offer: &Offer) -> Touches {
        Touches::NOTHING
    }

    fn consider(&self, case: &RemedyCase<'_>) -> Option<RemedyAnswer> {
        case.program_of_kinds(&[SoftwareKind::ClickHouse])?;
        (case.part_of_causes(&[Cause::MadviseDontneed, Cause::MadviseFree]) >= 0.05).then(|| {
            RemedyAnswer::advise(
                &[
                    "<memory_worker_decay_adjustment_period_ms>0</memory_worker_decay_adjustment_period_ms>",
                    "<memory_worker_purge_dirty_pages_threshold_ratio>0</memory_worker_purge_dirty_pages_threshold_ratio>",
                ],
                "in config.xml: the memory worker sets jemalloc's dirty_decay_ms to 0 under pressure, and purges what \
                 is dirty above that ratio; 0 turns each off, and jemalloc's own settings hold. Versions without these \
                 settings refuse none. Not measured here",
            )
        })
    }
}
