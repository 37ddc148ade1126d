//! Huge pages under an allocator's mappings, by the preload library: for allocators that have no setting for it.

use super::shim_library::{check_reach, is_copied_by_forks, library_offer};
use super::{
    HUGE_FAULTS_TOUCHED, MANY_FAULTS, MemoryGrowth, Offer, Remedy, RemedyAnswer, RemedyCase,
};
use crate::SoftwareKind;

const HUGE_SETTINGS: &str = "huge=2M,cache=0,zero=off,free=pass";

/// Has the library ask for huge pages for mappings from 2 MB on, and do nothing else.
pub(super) const LIBRARY_HUGE_PAGES: Remedy = Remedy {
    id: "shim.huge-pages",
    stops: "no shootdown: page faults of 4 KB in mappings of 2 MB and more, each 512 of which become one",
    worse: "memory that is touched thinly is resident whole, and a huge page is zeroed whole: a program of Bun did half as much with them, one of Erlang 1.4 times as much",
    source: "docs/remedies-measured.md: two programs, measured on Linux 6.18; madvise(2), MADV_HUGEPAGE. What it wins differs by the hour: only runs tell",
    touches: HUGE_FAULTS_TOUCHED,
    helps_without_shootdowns: true,
    consider: consider_library_huge_pages,
    ..Remedy::BY_LIBRARY
};

fn consider_library_huge_pages(case: &RemedyCase<'_>) -> Option<RemedyAnswer> {
    // glibc has a tunable for it, and jemalloc an option that belongs to its decay.
    let kinds = [
        SoftwareKind::Mimalloc,
        SoftwareKind::GoogleTcmalloc,
        SoftwareKind::Beam,
    ];
    let is_one = kinds
        .iter()
        .any(|kind| case.allocator_of_kind(*kind).is_some());
    let faults = case.evidence.page_faults.unwrap_or(0);
    // Where the program forks as it works, a write would copy 2 MB.
    if !is_one || faults < MANY_FAULTS || is_copied_by_forks(case) {
        return None;
    }
    let cost = "memory grows where it is touched thinly; not measured how much";
    let offer = check_reach(case).map(|()| Offer {
        untried: true,
        ..library_offer(
            HUGE_SETTINGS.to_owned(),
            0.0,
            MemoryGrowth::Unknown,
            cost.to_owned(),
        )
    });
    Some(offer.into())
}
