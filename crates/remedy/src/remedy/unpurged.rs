//! mimalloc over the preload library: purging is off, MADV_FREE, which it calls whatever is set, is dropped, and unmapped memory
//! is kept.
//!
//! mimalloc 2 asks for addresses of its own choice when it maps again, to have its segments aligned; the setting
//! `hint` tells the library which alignment matters. mimalloc 3 takes any address.

use quell_event::{Cause, Mechanism};

use super::mimalloc::{DELAY_VARIABLE, STOPPED_SHARE, is_zeroed, purge_setting};
use super::shim_library::{CACHED_CAUSES, LibrarySizes, check_reach, library_offer};
use super::{Offer, Remedy, RemedyAnswer, RemedyCase};
use crate::{FoundSoftware, SoftwareKind, Touches};

/// From this share of the shootdowns on it is worth keeping unmapped memory. Where 5 % were munmap, the same bound was better
/// used for memory freed by MADV_FREE: 2.1.7 left 6 % of 252 shootdowns in 1.12 times the memory without a cache, and with one 2
/// to 17 % in 1.20 times.
const MIN_UNMAP_SHARE: f64 = 0.1;
/// Memory that is not purged comes on top of the bound, since nobody can give it back: 3.1.5 took 1.20 to 1.25 times the memory
/// with a bound of 1.2 times the observed memory, and 1.17 with 1.1 (medians of 5 and 6 runs).
const UNPURGED_GROWTH: f64 = 1.0 / 12.0;
/// Memory that is not decommitted comes on top too: 2.0.9 took 1.22 to 1.29 times with a bound of 1.05 (medians of four proofs),
/// and 1.21 with 0.91 to 0.95, which left 20 to 23 % of the shootdowns (medians of 6 runs).
const UNDECOMMITTED_GROWTH: f64 = 0.27;
/// The small cache that is left then stops no more than this, in versions that decommit.
const SMALL_CACHE_SHARE: f64 = 0.82;
/// The alignment of a segment of mimalloc 2 (MI_SEGMENT_SIZE; seen in the hints of 2.0.6 to 2.1.7).
const SEGMENT_HINT: &str = "hint=32M";

/// Whether the origin is an allocator that this remedy is for: a mimalloc that is certainly 2.0.0 or newer. [`super::shim`]'s
/// cache leaves that one alone.
pub(super) fn applies_to(case: &RemedyCase<'_>) -> bool {
    let found = case.allocator_of_kind(SoftwareKind::Mimalloc);
    found.is_some_and(|f| f.at_least(2, 0, 0))
}

/// Turns purging off, drops MADV_FREE, and keeps unmapped memory.
pub(super) const UNPURGED: Remedy = Remedy {
    id: "shim.mimalloc",
    stops: "munmap and MADV_FREE of blocks over about 16 MB, which mimalloc makes from 2.0 on whatever is set, and MADV_DONTNEED",
    worse: "freed blocks stay in memory until they are used again, within the bound",
    source: "docs/remedies-measured.md: blocks of 1 to 64 MB, measured on Linux 6.18: 2.0.6 from 178 to 3, 2.0.9 from 544 to 1, 2.1.7 from 299 to 1, 3.1.5 from 182 to 3",
    touches: Touches::keeping(
        &[Mechanism::Advise, Mechanism::Unmap, Mechanism::Map],
        "what is unmapped or purged is kept and handed out again, without faults",
    )
    .and_asked(),
    consider: consider_unpurged,
    ..Remedy::BY_LIBRARY
};

fn consider_unpurged(case: &RemedyCase<'_>) -> Option<RemedyAnswer> {
    if !applies_to(case) {
        return None;
    }
    let found = case.allocator_of_kind(SoftwareKind::Mimalloc)?;
    if is_zeroed(case, found) {
        return None;
    }
    let purging = purge_setting(found)?;
    let unmapped = case.part_of_causes(&CACHED_CAUSES);
    let freed = case.part_of_causes(&[Cause::MadviseFree]);
    if freed == 0.0 && unmapped < MIN_UNMAP_SHARE {
        return None;
    }
    Some(keep_unpurged(case, found, purging, unmapped, freed).into())
}

/// The offer, or why there is none. `variable` and `value` turn purging off, and are set only where that matters; `unmapped` and
/// `freed` are the shares of the origin's shootdowns by unmapping and by MADV_FREE. Unmapped memory is kept from
/// [`MIN_UNMAP_SHARE`] on.
fn keep_unpurged(
    case: &RemedyCase<'_>,
    found: &FoundSoftware,
    (variable, value): (&str, &str),
    unmapped: f64,
    freed: f64,
) -> Result<Offer, String> {
    check_reach(case)?;
    let sizes = LibrarySizes::within_budget(case)?;
    let cached = unmapped >= MIN_UNMAP_SHARE;
    // As the budget allows. The bound is lowered below by what comes on top of it, so that the sum stays the same.
    let memory = sizes.memory_growth();
    let given = freed + case.part_of_causes(&[Cause::MadviseDontneed, Cause::Cow]);
    // From 2.1.2 on it purges after a while, or not: 3.1.5 did in 11 of 18 runs of one program. Before it either does
    // or never has a reason to.
    let set = variable == DELAY_VARIABLE || given >= MIN_UNMAP_SHARE;
    let undecommitted = cached && set && variable != DELAY_VARIABLE;
    let sizes = match (cached && set, undecommitted) {
        (true, true) => sizes.less_share(UNDECOMMITTED_GROWTH),
        (true, false) => sizes.less_share(UNPURGED_GROWTH),
        (false, _) => sizes,
    };
    let (mut settings, kept) = if cached {
        let kept = sizes.stops(case.evidence.mean_block());
        (sizes.shim_settings(), kept * unmapped)
    } else {
        (sizes.without_cache(), 0.0)
    };
    settings += ",zero=off";
    if cached && !found.at_least(3, 0, 0) {
        settings = settings + "," + SEGMENT_HINT;
    }
    let stops = STOPPED_SHARE * if set { given } else { freed } + kept;
    let stops = stops.min(if undecommitted {
        SMALL_CACHE_SHARE
    } else {
        1.0
    });
    let mut offer = library_offer(settings, stops, memory, sizes.cost_text("freed"));
    if set {
        offer.sets.insert(variable.to_owned(), value.to_owned());
    }
    Ok(offer)
}
