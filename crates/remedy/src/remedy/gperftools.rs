//! gperftools' tcmalloc: never release, neither on its timer nor at a request.

use quell_event::Mechanism;

use super::{MemoryGrowth, Remedy, RemedyAnswer, RemedyCase, one_variable};
use crate::{SoftwareKind, Touches};

/// Turns the return of free spans to the system off.
pub(super) const RELEASE_RATE: Remedy = Remedy {
    id: "gperftools.release-rate",
    stops: "madvise(MADV_DONTNEED) of free spans",
    worse: "TCMALLOC_AGGRESSIVE_DECOMMIT gives back at every free and undoes it",
    source: "docs/remedies-measured.md: allocation churn, measured on 2.10, Linux 6.18",
    touches: Touches::keeping(
        &[Mechanism::Advise],
        "its timer gives no free span back, so that none is faulted in again",
    ),
    consider: |case| set_variable(case, "TCMALLOC_RELEASE_RATE", "0"),
    ..Remedy::BY_SETTING
};

/// Turns it off also for the program's own requests: a release rate is for the allocator's own timer, and
/// `MallocExtension::ReleaseFreeMemory()` gives back all free spans whatever the rate.
pub(super) const DISABLE_RELEASE: Remedy = Remedy {
    id: "gperftools.disable-release",
    stops: "madvise(MADV_DONTNEED) of free spans, also by the program's own ReleaseFreeMemory() and aggressive decommit",
    worse: "memory is never given back, so a program that peaks once keeps its peak",
    source: "gperftools src/system-alloc.cc, TCMALLOC_DISABLE_MEMORY_RELEASE; gperftools/gperftools#1547: 2.3 to 2.7 times the \
         operations with 2.10 on Linux 6.18",
    touches: Touches::keeping(
        &[Mechanism::Advise],
        "no free span is given back, whoever asks, so that none is faulted in again",
    )
    .and_asked(),
    consider: |case| set_variable(case, "TCMALLOC_DISABLE_MEMORY_RELEASE", "1"),
    ..Remedy::BY_SETTING
};

/// Both keep memory, and stop as much.
fn set_variable(case: &RemedyCase<'_>, variable: &str, value: &str) -> Option<RemedyAnswer> {
    case.allocator_of_kind(SoftwareKind::Gperftools)?;
    Some(RemedyAnswer::offer_variables(
        one_variable(variable, value),
        0.95,
        MemoryGrowth::Unknown,
        "freed memory stays resident; not measured how much",
    ))
}
