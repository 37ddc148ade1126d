//! MongoDB: the memory that its tcmalloc gives back.

use quell_event::Cause;

use super::{Offer, Remedy, RemedyAnswer, RemedyCase};
use crate::{SoftwareKind, Touches};

/// Gives nothing back on a timer.
pub(super) struct MongoDb;

impl Remedy for MongoDb {
    fn id(&self) -> &'static str {
        "mongodb.parameters"
    }

    fn stops(&self) -> &'static str {
        "madvise(MADV_DONTNEED) of free pages that tcmalloc releases"
    }

    fn worse(&self) -> &'static str {
        "tcmallocAggressiveMemoryDecommit (up to 7): it gives back at every free; and 8.0 wants huge pages, 7.0 and before do not"
    }

    fn source(&self) -> &'static str {
        "mongodb.com/docs: MongoDB Server Parameters, tcmallocReleaseRate (0 by default from 8.0 on, bytes a second; 1 before) and tcmallocEnableBackgroundThread; TCMalloc Performance Optimization. Not measured here"
    }

    fn touches(&self, _offer: &Offer) -> Touches {
        Touches::NOTHING
    }

    fn consider(&self, case: &RemedyCase<'_>) -> Option<RemedyAnswer> {
        case.program_of_kinds(&[SoftwareKind::MongoDb])?;
        (case.part_of_causes(&[Cause::MadviseDontneed]) >= 0.05).then(|| {
            RemedyAnswer::advise(
                &[
                    "setParameter: {tcmallocReleaseRate: 0, tcmallocEnableBackgroundThread: false}",
                ],
                "in mongod.conf: free memory stays; up to 7.0 there is no tcmallocEnableBackgroundThread, and the \
                 release rate is 1. Not measured here",
            )
        })
    }
}
