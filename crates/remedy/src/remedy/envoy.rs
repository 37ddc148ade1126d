//! Envoy: the memory that its tcmalloc gives back.

use quell_event::Cause;

use super::{Offer, Remedy, RemedyAnswer, RemedyCase};
use crate::{SoftwareKind, Touches};

/// Gives nothing back on a timer.
pub(super) struct Envoy;

impl Remedy for Envoy {
    fn id(&self) -> &'static str {
        "envoy.bootstrap"
    }

    fn stops(&self) -> &'static str {
        "madvise(MADV_DONTNEED) of free pages that tcmalloc releases on a timer, or under overload"
    }

    fn worse(&self) -> &'static str {
        "an Envoy near its memory limit: shrinking is what keeps it below"
    }

    fn source(&self) -> &'static str {
        "envoyproxy.io docs, Overload manager (envoy.overload_actions.shrink_heap) and config.bootstrap.v3.MemoryAllocatorManager (bytes_to_release, 0 by default). Not measured here"
    }

    fn touches(&self, _offer: &Offer) -> Touches {
        Touches::NOTHING
    }

    fn consider(&self, case: &RemedyCase<'_>) -> Option<RemedyAnswer> {
        case.program_of_kinds(&[SoftwareKind::Envoy])?;
        (case.part_of_causes(&[Cause::MadviseDontneed]) >= 0.05).then(|| {
            RemedyAnswer::advise(
                &["memory_allocator_manager: {bytes_to_release: 0}"],
                "in the bootstrap, and no action envoy.overload_actions.shrink_heap in overload_manager: free memory \
                 is given back by these two only. Not measured here",
            )
        })
    }
}
