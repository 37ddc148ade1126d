//! Which pages are copied because of what an allocator did: copying one is a shootdown by `cow`.
//!
//! A page that was only read is the zero page, and so is one of a huge page that was split while it held
//! nothing but zeros; the first write to it copies, with a shootdown. Neither is the allocator's own call,
//! but both end with its habit.

use quell_event::Cause;

use crate::attribute::Share;
use crate::{Evidence, Found, Kind, Linking, Source};

/// jemalloc reads its own fresh metadata before it writes it, so that each page is first the zero page
/// and then copied, with a shootdown: seen in `_rjem_je_base_alloc_edata` of 5.3.1 under Polars.
/// Of a stripped file all of jemalloc's code that copies counts: what else copies is the program's own code.
pub(crate) fn in_metadata(found: &[Found], source: &Source) -> bool {
    if source.cause != Cause::Cow {
        return false;
    }
    match &source.caller_symbol {
        Some(symbol) => ["je_", "base_alloc", "edata_"]
            .iter()
            .any(|part| symbol.contains(part)),
        None => found.iter().any(|f| {
            f.kind == Kind::Jemalloc
                && f.linking == Linking::SharedLibrary
                && source.caller_module.as_ref() == Some(&f.module)
        }),
    }
}

/// The jemalloc whose memory is read before it is written, and so is the zero page first: by its own code for small
/// blocks, and by `realloc` of a large one, which copies all of it, also what nobody wrote yet; what lay there is then
/// used for something else. Seen of Polars, whose tables grow that way: 300 to 1,100 of 500 to 1,600 shootdowns of some
/// runs, and 20 of 400 of others. The stack says only who writes: jemalloc's own file, or the C library for it.
/// Not its metadata, which huge pages for the rest don't reach ([`in_metadata`]).
pub(crate) fn read_first(found: &[Found], evidence: &Evidence, source: &Source) -> Option<usize> {
    if !is_of_zeros(evidence, source) || is_base(found, source) {
        return None;
    }
    let of = |f: &Found, s: &Source| s.caller_module.as_ref() == Some(&f.module);
    let gives_back = |f: &Found| {
        let back = |s: &Source| s.cause != Cause::Cow && of(f, s);
        evidence.sources.iter().any(back)
    };
    let writes = |f: &Found| {
        let by_libc = |c: &Found| c.kind.is_libc() && of(c, source);
        of(f, source) || found.iter().any(by_libc)
    };
    found
        .iter()
        .position(|f| f.kind == Kind::Jemalloc && gives_back(f) && writes(f))
}

/// Whether it is jemalloc's allocator of its own metadata that writes. Without a name it is taken for that: of 80 copies
/// in jemalloc's code 50 to 63 were.
fn is_base(found: &[Found], source: &Source) -> bool {
    match &source.caller_symbol {
        Some(symbol) => symbol.contains("base_alloc") || symbol.contains("edata_"),
        None => in_metadata(found, source),
    }
}

/// The allocator whose MADV_FREE split the huge pages that are copied now, by index. MADV_FREE of a part of a
/// huge page splits it, and since Linux 6.12 the kernel puts the zero page where a split one held zeros only
/// (mm/migrate.c: try_to_map_unused_to_zeropage()). Seen of mimalloc 2.2.4 and 2.3.2 with blocks of 1 to 64 MB:
/// 26 and 41 % of the shootdowns, and none with its MADV_FREE dropped. Not where the program forks, which copies
/// by itself, nor of a file's pages.
pub(crate) fn after_a_split(
    found: &[Found],
    evidence: &Evidence,
    source: &Source,
) -> Option<usize> {
    if !is_of_zeros(evidence, source) {
        return None;
    }
    let index = found.iter().position(|f| f.kind == Kind::Mimalloc)?;
    let of_it = |s: &Source| s.caller_module.as_ref() == Some(&found[index].module);
    let frees = |s: &Source| s.cause == Cause::MadviseFree && of_it(s);
    evidence.sources.iter().any(frees).then_some(index)
}

/// How many more copies may be of memory that a file's own calls give back, which it maps anew, reads first and then
/// writes: no more pages are copied than were given back. What the preload library serves again, or zeroes in place, is
/// there and writable, so that nothing is copied. Seen of a program that reads each page of what it maps before it
/// writes it: 26 % of the shootdowns were by munmap, the others by cow, and the library stopped 97 % of all.
///
/// The pages of a full flush are not known: 33 or more. They are taken for 4 MB, so that of larger blocks too little is
/// promised, and of a large table that stays, filled by a program that once unmaps something else, not much too much.
pub(crate) fn of_what_is_given_back(evidence: &Evidence, share: &Share) -> u64 {
    const FULL: u64 = 1024;
    let of = |cause| share.causes.get(&cause).copied().unwrap_or(0);
    let calls = of(Cause::Munmap) + of(Cause::MadviseDontneed);
    // which flushes were full nobody says: of these calls as many as of all but copies, which are of a page each
    let copies: u64 = evidence
        .sources
        .iter()
        .filter(|s| s.cause == Cause::Cow)
        .map(|s| s.shootdowns)
        .sum();
    let flushes = evidence.shootdowns.saturating_sub(copies).max(1);
    let pages = evidence.pages.saturating_sub(copies) + FULL * evidence.full;
    let given = calls.saturating_mul(pages) / flushes;
    given.saturating_sub(of(Cause::Cow))
}

/// Whether what is copied can only be the zero page: it lies in anonymous memory, and nobody forks or has forked.
pub(crate) fn is_of_zeros(evidence: &Evidence, source: &Source) -> bool {
    let anonymous = source
        .region
        .as_deref()
        .is_some_and(|r| r.starts_with("anonymous memory"));
    let forks = evidence.sources.iter().any(|s| s.cause == Cause::Fork);
    source.cause == Cause::Cow && anonymous && !forks && evidence.from_start
}
