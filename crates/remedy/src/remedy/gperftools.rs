//! gperftools' tcmalloc: never release.

use super::{Case, Memory, Remedy, Verdict, one};
use crate::Kind;

/// Turns the return of free spans to the system off.
pub(super) struct ReleaseRate;

impl Remedy for ReleaseRate {
    fn id(&self) -> &'static str {
        "gperftools.release-rate"
    }

    fn stops(&self) -> &'static str {
        "madvise(MADV_DONTNEED) of free spans"
    }

    fn worse(&self) -> &'static str {
        "TCMALLOC_AGGRESSIVE_DECOMMIT gives back at every free and undoes it"
    }

    fn source(&self) -> &'static str {
        "docs/remedies.md: allocation churn, measured on 2.10, Linux 6.18"
    }

    fn consider(&self, case: &Case<'_>) -> Option<Verdict> {
        case.allocator(Kind::Gperftools)?;
        Some(Verdict::set(
            one("TCMALLOC_RELEASE_RATE", "0"),
            0.95,
            Memory::Unknown,
            "freed memory stays resident; not measured how much",
        ))
    }
}
