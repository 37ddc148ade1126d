//! Which pages are copied because of what an allocator did: copying one is a shootdown by `cow`.
//!
//! A page that was only read is the zero page, and so is one of a huge page that was split while it held
//! nothing but zeros; the first write to it copies, with a shootdown. Neither is the allocator's own call,
//! but both end with its habit.

use std::path::Path;

use quell_event::Cause;

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

/// The file whose own calls give back what is copied now: it maps fresh memory, reads it first, and then writes. What
/// the preload library serves again, or zeroes in place, is there and writable, so that nothing is copied. Seen of a
/// program that reads each page of what it maps before it writes it: 26 % of the shootdowns were by munmap, the others
/// by cow, and the library stopped 97 % of all.
pub(crate) fn before_it_is_written<'a>(
    evidence: &'a Evidence,
    source: &'a Source,
    is_own: &dyn Fn(&Path) -> bool,
) -> Option<&'a Path> {
    let writer = source.caller_module.as_deref().filter(|m| is_own(m))?;
    let gives_back = |s: &&Source| {
        matches!(s.cause, Cause::Munmap | Cause::MadviseDontneed)
            && s.caller_module.as_deref() == Some(writer)
    };
    (is_of_zeros(evidence, source) && evidence.sources.iter().any(|s| gives_back(&s)))
        .then_some(writer)
}

/// Whether what is copied can only be the zero page: it lies in anonymous memory, and nobody forks.
fn is_of_zeros(evidence: &Evidence, source: &Source) -> bool {
    let anonymous = source
        .region
        .as_deref()
        .is_some_and(|r| r.starts_with("anonymous memory"));
    let forks = evidence.sources.iter().any(|s| s.cause == Cause::Fork);
    source.cause == Cause::Cow && anonymous && !forks
}
