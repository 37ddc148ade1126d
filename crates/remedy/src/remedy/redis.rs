//! Redis and Valkey: settings of their own configuration.

use quell_event::Cause;

use super::{Offer, Remedy, RemedyAnswer, RemedyCase};
use crate::{SoftwareKind, Touches};

/// Saving forks, and defragmenting frees the blocks that it moved.
pub(super) struct Redis;

/// The share of the shootdowns from which on forks are worth a word.
const MENTIONED_FORK_SHARE: f64 = 0.05;

impl Remedy for Redis {
    fn id(&self) -> &'static str {
        "redis.conf"
    }

    fn stops(&self) -> &'static str {
        "the write protection and the copies of each background save, and the memory that active defragmentation frees"
    }

    fn worse(&self) -> &'static str {
        "jemalloc-bg-thread yes or no: it is who gives back that changes, and not how often (not measured here)"
    }

    fn source(&self) -> &'static str {
        "redis.conf of redis/redis: save, appendonly, activedefrag, disable-thp; src/rdb.c, rdbSaveBackground. Not measured here"
    }

    fn touches(&self, _offer: &Offer) -> Touches {
        Touches::NOTHING
    }

    fn consider(&self, case: &RemedyCase<'_>) -> Option<RemedyAnswer> {
        let program = case.program_of_kinds(&[SoftwareKind::Redis, SoftwareKind::Valkey])?;
        let file = if program.kind == SoftwareKind::Redis {
            "redis.conf"
        } else {
            "valkey.conf"
        };
        let forks = case.part_of_causes(&[Cause::Fork, Cause::Cow]);
        if forks >= MENTIONED_FORK_SHARE {
            return Some(RemedyAnswer::advise(
                &["save \"\"", "appendonly no"],
                format!(
                    "in {file}, where a replica saves: each save and each rewrite of the log forks, and {:.0} % of \
                     the shootdowns are of forks and copies; disable-thp yes (the default) keeps a copy at 4 KB. \
                     Not measured here",
                    forks * 100.0
                ),
            ));
        }
        let back = case.part_of_causes(&[Cause::MadviseDontneed, Cause::MadviseFree]);
        (back >= 0.2).then(|| {
            RemedyAnswer::advise(
                &["activedefrag no"],
                format!(
                    "in {file} (the default): what defragmenting frees is given back. Not measured here"
                ),
            )
        })
    }
}
