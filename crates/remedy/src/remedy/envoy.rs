//! Envoy: what its tcmalloc gives back.

use quell_event::Cause;

use super::{Case, Offer, Remedy, Verdict};
use crate::{Kind, Touches};

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

    fn consider(&self, case: &Case<'_>) -> Option<Verdict> {
        case.program(&[Kind::Envoy])?;
        (case.part(&[Cause::MadviseDontneed]) >= 0.05).then(|| {
            Verdict::advise(
                &["memory_allocator_manager: {bytes_to_release: 0}"],
                "in the bootstrap, and no action envoy.overload_actions.shrink_heap in overload_manager: free memory \
                 is given back by these two only. Not measured here",
            )
        })
    }
}
