//! The preload library `libquell.so`, for allocators and programs that no setting reaches.
//!
//! It stands between a program and the C library's mmap, munmap and madvise, so it reaches calls of these functions by name, and
//! nothing else.

use quell_event::{Cause, Mechanism};

use super::shim_library::{
    CACHED_CAUSES, LibrarySizes, check_reach, is_copied_by_forks, library_offer,
};
use super::{
    Offer, Remedy, RemedyAnswer, RemedyCase, ShootdownOrigin, mimalloc, undecayed, unpurged,
};
use crate::{SoftwareKind, Touches};

/// The largest of the blocks of which zeroing stopped nearly all.
const SMALL_BLOCK_BYTES: u64 = 4 << 20;
/// The same for google/tcmalloc, which gives neighbouring blocks back together: 1.8 to 5 MB where blocks have up to 4 MB, and 12
/// MB where they have up to 64.
const SMALL_TOGETHER: u64 = 8 << 20;
/// Up to the largest blocks that were measured, and not `auto`, which stops at 1 to 2 MB, from where on zeroing takes
/// longer than giving back: of google/tcmalloc's 89 shootdowns `auto` left 24, and this 4.
const ZERO_SETTING: &str = "zero=64M";
/// For google/tcmalloc with large blocks: it may use memory that stays in place again or not, and nobody can give it back later,
/// so that memory grows beyond the bound. With a bound of 1.2 times the observed memory, `zero=64M` took 1.32 times the memory
/// and left 27 % of the shootdowns, and this 1.19 times and 20 % (medians of 6 runs).
const ZERO_SOME: &str = "zero=16M";
/// google/tcmalloc with large blocks has up to a tenth more in one run than in the next, so that a bound of a quarter over
/// the observed one was 1.18 to 1.30 times the others.
const RUN_VARIATION: f64 = 1.0 / 12.0;
/// Zeroing, and dropping MADV_FREE, replace these calls.
const ZEROED_CAUSES: [Cause; 2] = [Cause::MadviseDontneed, Cause::MadviseFree];

/// Keeps unmapped regions for later mappings, and gives the surplus back in batches.
pub(super) const SHIM_CACHE: Remedy = Remedy {
    id: "shim.cache",
    stops: "munmap of anonymous memory by the program itself, or by an allocator whose settings don't reach it",
    worse: "use of memory after munmap is not caught any more (QUELL_SHIM=strict catches it); a cache much smaller than what is unmapped and mapped again stops little",
    source: "docs/remedies-measured.md: raw mmap, measured on Linux 6.18: 2,846 shootdowns to 47 where no more memory was allowed than before, to 18 with 1.05 times",
    touches: Touches::keeping(
            &[Mechanism::Unmap, Mechanism::Map],
            "what the program unmaps is kept and handed out again, without faults; files and reservations are passed on",
        ).and_asked(),
    consider: consider_shim_cache,
    ..Remedy::BY_LIBRARY
};

/// Considers also an origin that unmaps nothing but files, so that it is said why the library can't help there.
fn consider_shim_cache(case: &RemedyCase<'_>) -> Option<RemedyAnswer> {
    let files = case.part_of_files(&CACHED_CAUSES);
    let part = (case.part_with_copies(&CACHED_CAUSES) - files).max(0.0);
    let others = undecayed::applies_to(case) || unpurged::applies_to(case);
    if (part == 0.0 && files == 0.0) || !is_interceptable(case) || others {
        return None;
    }
    Some(keep_unmapped(case, part, files).into())
}

fn keep_unmapped(case: &RemedyCase<'_>, part: f64, files: f64) -> Result<Offer, String> {
    check_reach(case)?;
    check_reuse(case)?;
    check_kept(case, part, files)?;
    let sizes = LibrarySizes::within_budget(case)?;
    // The library zeroes by default.
    let zero = if is_copied_by_forks(case) {
        ",zero=off"
    } else {
        ""
    };
    Ok(library_offer(
        sizes.shim_settings() + zero,
        part * sizes.stops(case.evidence.mean_block()),
        sizes.memory_growth(),
        sizes.cost_text("unmapped"),
    ))
}

/// Answers MADV_DONTNEED by zeroing in place.
pub(super) const SHIM_ZERO: Remedy = Remedy {
    id: "shim.zero",
    stops: "madvise(MADV_DONTNEED) of small ranges, which are zeroed instead, and MADV_FREE, which is dropped",
    worse: "ranges that are never used again: zeroing takes longer than giving back from 32 KB on if they are out of the cache, from 1 to 2 MB on if they are in it; a program that forks as it works, since each page that stays is copied",
    source: "docs/remedies-measured.md: jemalloc with decay 0 under a prototype, 971 shootdowns to 3.3 per 1,000 operations; with blocks of 1 to 64 MB, 1,087 to 127",
    touches: Touches::keeping(
        &[Mechanism::Advise],
        "what is given back is zeroed in place, so that it is not faulted in again",
    )
    .and_asked(),
    consider: consider_shim_zero,
    ..Remedy::BY_LIBRARY
};

fn consider_shim_zero(case: &RemedyCase<'_>) -> Option<RemedyAnswer> {
    let part = case.part_with_copies(&ZEROED_CAUSES) - case.part_of_files(&ZEROED_CAUSES);
    if part <= 0.0 || !is_interceptable(case) || undecayed::applies_to(case) {
        return None;
    }
    // mimalloc's own setting does that, and `unpurged` does the rest; within a bound only this remedy does: of 3.6.0's 123
    // shootdowns with blocks of 1 to 64 MB 14 to 19 were left, in 1.12 to 1.2 times the memory.
    if case
        .allocator_of_kind(SoftwareKind::Mimalloc)
        .is_some_and(|f| mimalloc::purge_setting(f).is_some() && !mimalloc::is_zeroed(case, f))
    {
        return None;
    }
    Some(zero_in_place(case, part).into())
}

fn zero_in_place(case: &RemedyCase<'_>, part: f64) -> Result<Offer, String> {
    check_reach(case)?;
    if is_copied_by_forks(case) {
        return Err(
            "the preload library would zero what is given back in place, and the program forks as it works: \
             what stays is then copied page by page, each with a shootdown, while a child has it too (with a \
             child of 20 ms every 40 ms, 1,488 to 7,097 shootdowns became 4,498 to 55,627)"
                .to_owned(),
        );
    }
    let mut sizes = LibrarySizes::within_budget(case)?;
    if is_google(case) && !is_small(case) {
        sizes = sizes.less_share(RUN_VARIATION);
    }
    Ok(library_offer(
        format!("{},{}", sizes.shim_settings(), zero_up_to(case)),
        part * zeroed_share(case, &sizes),
        sizes.memory_growth(),
        sizes.cost_text("zeroed"),
    ))
}

/// The share of in-place releases that zeroing stops.
///
/// Measured: jemalloc with decay 0 under a prototype that kept 64 MB, 971 to 3.3 with blocks of 64 KB to 4 MB, and 1,087 to 127
/// with 1 to 64 MB; google/tcmalloc within a quarter more memory, 78 to 98 % in six runs, since it gives back memory that it does
/// not use again soon, and the bound is reached; with [`ZERO_SOME`] 80 to 86 % in seven, in up to 1.30 times the memory, and with
/// [`RUN_VARIATION`] less room 70 to 83 % in four, in 1.17 to 1.22 times. A program's own calls where any of 128 ranges is used
/// next, half of them in use: 15, 46 and 66 % where the room was 0.18, 0.25 and 0.93 of the observed memory. Zeroed memory serves
/// no other address, so it takes room for all memory that is not in use, and not only for memory that is used again soon.
/// Assumed: blocks of unknown size are large, allocators use memory again soon, and where there is little room for one that does,
/// as many calls go to the kernel as the cache would miss.
fn zeroed_share(case: &RemedyCase<'_>, sizes: &LibrarySizes) -> f64 {
    let best = match (is_google(case), is_small(case)) {
        (true, true) => 0.90,
        (true, false) => 0.78,
        (false, true) => 0.99,
        (false, false) => 0.88,
    };
    let soon = match case.origin {
        ShootdownOrigin::Own(_) => sizes.of_seen(),
        _ => 1.0,
    };
    let mean = case.evidence.mean_block();
    sizes.stops(mean).min(best).min(soon)
}

fn is_google(case: &RemedyCase<'_>) -> bool {
    case.allocator_of_kind(SoftwareKind::GoogleTcmalloc)
        .is_some()
}

/// Whether the blocks that are given back are small; those of unknown size are not.
fn is_small(case: &RemedyCase<'_>) -> bool {
    let most = if is_google(case) {
        SMALL_TOGETHER
    } else {
        SMALL_BLOCK_BYTES
    };
    let mean = case.evidence.mean_block();
    mean.is_some_and(|bytes| bytes <= most)
}

fn zero_up_to(case: &RemedyCase<'_>) -> &'static str {
    if is_google(case) && !is_small(case) {
        ZERO_SOME
    } else {
        ZERO_SETTING
    }
}

/// Checks that kept memory may be used again; an error says why it never would be. mimalloc 1.0.0 takes any address: 709 shootdowns
/// under churn became 169 with a cache of 256 MB. For 2 and later there is `unpurged`.
fn check_reuse(case: &RemedyCase<'_>) -> Result<(), String> {
    match case.allocator_of_kind(SoftwareKind::Mimalloc) {
        Some(found) if !found.is_below(1, 3, 0) => Err(
            "the preload library can't keep what it unmaps: mimalloc 1 asks for addresses of its own choice when it maps again"
                .to_owned(),
        ),
        _ => Ok(()),
    }
}

/// Whether the calls are any that a library can stand before at all; the kernel's own are not.
fn is_interceptable(case: &RemedyCase<'_>) -> bool {
    matches!(
        case.origin,
        ShootdownOrigin::Allocator(_) | ShootdownOrigin::Own(_)
    )
}

/// Checks that the library would keep what this origin unmaps; an error says why it would pass that on. It keeps private anonymous
/// memory that can be read and written, and nothing else (docs/shim.md, "What it believes"): no files, no addresses that are reserved
/// and opened later, no code.
fn check_kept(case: &RemedyCase<'_>, kept: f64, files: f64) -> Result<(), String> {
    if kept == 0.0 && files > 0.0 {
        return Err(
            "they are on mappings of files, which the preload library passes on: it keeps anonymous memory"
                .to_owned(),
        );
    }
    // A program that changes protections more often than it unmaps makes code, or opens memory that it had reserved.
    let protects = case.part_of_causes(&[Cause::Mprotect]);
    if matches!(case.origin, ShootdownOrigin::Own(_)) && protects > kept {
        return Err(
            "most of its calls change what may be done with memory (mprotect): code, or addresses that were reserved, neither of \
             which the preload library keeps"
                .to_owned(),
        );
    }
    Ok(())
}
