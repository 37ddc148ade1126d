//! mimalloc: never purge.

use super::{Case, Memory, Remedy, Verdict, one};
use crate::Kind;

/// Turns purging off (called decommit up to 2.0.9).
pub(super) struct Purge;

/// From here on most blocks are over the 16 MB that versions 1 and 2 map and unmap by themselves, as in the
/// load of 1 to 64 MB that was measured.
const BIG: u64 = 8 << 20;

impl Remedy for Purge {
    fn id(&self) -> &'static str {
        "mimalloc.purge"
    }

    fn stops(&self) -> &'static str {
        "madvise(MADV_DONTNEED) of freed pages and segments"
    }

    fn worse(&self) -> &'static str {
        "PURGE_DECOMMITS=0 under bursty load; in 2.x, blocks over about 16 MB are unmapped whatever is set"
    }

    fn source(&self) -> &'static str {
        "docs/remedies.md: allocation churn, measured on 2.0.9, 2.2.7 and 3.3.2, Linux 6.18"
    }

    fn consider(&self, case: &Case<'_>) -> Option<Verdict> {
        let found = case.allocator(Kind::Mimalloc)?;
        let big = case.evidence.mean_block().is_some_and(|b| b >= BIG);
        // By the sources of every release: allow_decommit is in 2.0.0 to 2.1.1, purge_delay in 1.8.2 and later
        // of 1, and in 2.1.2 and later.
        let decommits = found.at_least(2, 0, 0) && found.below(2, 1, 2);
        let purges = found.at_least(1, 8, 2) && !decommits;
        let (variable, value, stops) = if found.at_least(3, 0, 0) {
            // 134 to 0.
            ("MIMALLOC_PURGE_DELAY", "-1", 0.95)
        } else if purges {
            // Bursty 13 to 0.8, but blocks of 1 to 64 MB only 2,650 to 2,370.
            ("MIMALLOC_PURGE_DELAY", "-1", if big { 0.1 } else { 0.94 })
        } else if decommits {
            // 2.0.9: bursty 8 to 1.2, large blocks 937 to 457.
            ("MIMALLOC_ALLOW_DECOMMIT", "0", if big { 0.5 } else { 0.85 })
        } else {
            return Some(Verdict::refuse(
                "its version has neither purge_delay nor allow_decommit, or is not known: nothing was measured there",
            ));
        };
        Some(Verdict::set(
            one(variable, value),
            stops,
            Memory::Unknown,
            "freed memory stays resident; not measured how much",
        ))
    }
}
