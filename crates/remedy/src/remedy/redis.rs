//! Redis and Valkey: what their own configuration can do.

use quell_event::Cause;

use super::{Case, Offer, Remedy, Verdict};
use crate::{Kind, Touches};

/// Saving forks, and defragmenting frees what it moved.
pub(super) struct Redis;

/// The share of the shootdowns from which on forks are worth a word.
const FORKS: f64 = 0.05;

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

    fn consider(&self, case: &Case<'_>) -> Option<Verdict> {
        let program = case.program(&[Kind::Redis, Kind::Valkey])?;
        let file = if program.kind == Kind::Redis {
            "redis.conf"
        } else {
            "valkey.conf"
        };
        let forks = case.part(&[Cause::Fork, Cause::Cow]);
        if forks >= FORKS {
            return Some(Verdict::advise(
                &["save \"\"", "appendonly no"],
                format!(
                    "in {file}, where a replica saves: each save and each rewrite of the log forks, and {:.0} % of \
                     the shootdowns are of forks and copies; disable-thp yes (the default) keeps a copy at 4 KB. \
                     Not measured here",
                    forks * 100.0
                ),
            ));
        }
        let back = case.part(&[Cause::MadviseDontneed, Cause::MadviseFree]);
        (back >= 0.2).then(|| {
            Verdict::advise(
                &["activedefrag no"],
                format!(
                    "in {file} (the default): what defragmenting frees is given back. Not measured here"
                ),
            )
        })
    }
}
