//! mimalloc: never purge.

use quell_event::{Cause, Mechanism};

use super::{MemoryGrowth, Offer, Remedy, RemedyAnswer, RemedyCase, one_variable};
use crate::{FoundSoftware, Linking, SoftwareKind, Touches};

/// 2.0.9 with large blocks 59 to 0, 2.1.2 41 to 0, 2.2.4 63 to 1, bursty 69 to 0; 3.3.2 bursty 134 to 0.
pub(super) const STOPPED_SHARE: f64 = 0.97;
/// By how much memory grew: 1.08 and 1.05 times (2.1.2 and 2.1.7, bursty), 1.12 (2.0.9), 1.04, 1.06, 0.99 (large
/// blocks: 2.1.2, 2.1.7, 2.2.4).
const PURGE_MEMORY_GROWTH: f64 = 0.12;

/// And of mimalloc 3 with large blocks, whose peak differs from run to run: 1.18 and 1.26 times (3.6.0, medians of five
/// pairs), 1.10 to 1.22 in eight runs by themselves.
const MEMORY_OF_LARGE: f64 = 0.26;

/// The setting of newer versions.
pub(super) const DELAY_VARIABLE: &str = "MIMALLOC_PURGE_DELAY";

/// The setting that turns purging off in this version, if there is one. By the sources of every release:
/// allow_decommit is in 2.0.0 to 2.1.1, purge_delay in 1.8.2 and later of 1, and in 2.1.2 and later.
pub(super) fn purge_setting(found: &FoundSoftware) -> Option<(&'static str, &'static str)> {
    if found.at_least(2, 0, 0) && found.is_below(2, 1, 2) {
        Some(("MIMALLOC_ALLOW_DECOMMIT", "0"))
    } else if found.at_least(1, 8, 2) {
        Some((DELAY_VARIABLE, "-1"))
    } else {
        None
    }
}

/// From this share of MADV_DONTNEED on, versions whose purging is costly to turn off are left to zeroing in place.
const MOSTLY_ADVICE_SHARE: f64 = 0.9;

/// Whether memory that is not purged takes so many bytes that within a budget another remedy may be needed.
fn is_dear(case: &RemedyCase<'_>, found: &FoundSoftware) -> bool {
    // Not of older versions of 3: 3.0.1 takes 6 GB where other versions take 150 MB, purged or not.
    found.at_least(3, 3, 0) && case.has_large_blocks()
}

/// Whether it is the allocator inside a runtime, such as Bun: programs of a runtime differ more than the programs that were
/// measured with the library by itself.
fn is_within_a_runtime(found: &FoundSoftware) -> bool {
    found.at_least(3, 0, 0) && found.linking == Linking::Static
}

/// Whether this allocator's own setting takes too much memory, so that the preload library zeroes in place instead, and does
/// nothing else.
pub(super) fn is_zeroed(case: &RemedyCase<'_>, found: &FoundSoftware) -> bool {
    is_dear(case, found) && case.part_of_causes(&[Cause::MadviseDontneed]) > MOSTLY_ADVICE_SHARE
}

/// Turns purging off (called decommit up to 2.1.1).
pub(super) const MIMALLOC_PURGE: Remedy = Remedy {
    id: "mimalloc.purge",
    stops: "madvise(MADV_DONTNEED) of freed pages and segments",
    worse: "PURGE_DECOMMITS=0 under bursty load; blocks over about 16 MB make MADV_FREE (2.1 on) or munmap (2.0, 3) whatever is set",
    source: "docs/remedies-measured.md: allocation churn, measured on 2.0.9 to 3.3.2, Linux 6.18",
    touches: Touches::keeping(
        &[Mechanism::Advise],
        "freed pages are not purged, so that none is faulted in again",
    ),
    consider: consider_mimalloc_purge,
    ..Remedy::BY_SETTING
};

fn consider_mimalloc_purge(case: &RemedyCase<'_>) -> Option<RemedyAnswer> {
    let found = case.allocator_of_kind(SoftwareKind::Mimalloc)?;
    let Some((variable, value)) = purge_setting(found) else {
        return Some(RemedyAnswer::refuse(
            "its version has neither purge_delay nor allow_decommit, or is not known",
        ));
    };
    let purged = case.part_of_causes(&[Cause::MadviseDontneed, Cause::Other]);
    if case.shootdowns() > 0 && purged < 0.05 {
        return Some(RemedyAnswer::refuse(format!(
            "{variable}={value} stops MADV_DONTNEED, and few of these are that: blocks over about 16 MB are \
             freed by MADV_FREE or munmap whatever is set",
        )));
    }
    if is_within_a_runtime(found) {
        return Some(RemedyAnswer::Offer(vec![Offer {
            sets: one_variable(variable, value),
            stops: STOPPED_SHARE * case.part_with_copies(&[Cause::MadviseDontneed, Cause::Other]),
            memory: MemoryGrowth::Unknown,
            cost: "freed memory stays resident: 1.0 to 1.2 times the memory in one program of Bun, and 4 times in another, \
                   so see what runs say of this one"
                .to_owned(),
            untried: true,
            ..Offer::default()
        }]));
    }
    let (memory, cost) = if is_dear(case, found) {
        (
            MEMORY_OF_LARGE,
            "freed memory stays resident: 18 to 26 % more was measured with large blocks",
        )
    } else {
        (
            PURGE_MEMORY_GROWTH,
            "freed memory stays resident: 1 % less to 12 % more was measured",
        )
    };
    Some(RemedyAnswer::offer_variables(
        one_variable(variable, value),
        STOPPED_SHARE * case.part_with_copies(&[Cause::MadviseDontneed, Cause::Other]),
        MemoryGrowth::Share(memory),
        cost,
    ))
}
