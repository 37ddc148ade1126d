//! Pages that are copied because of an allocator's habits: each copy is a shootdown by `cow`.
//!
//! A page that was only read is the zero page, and so is one of a huge page that was split while it held
//! nothing but zeros; the first write to it copies, with a shootdown. Neither is the allocator's own call,
//! but both end with its habit.

use quell_event::Cause;

use crate::function_names::is_libc_file;
use crate::share::{Share, ShootdownSplit};
use crate::{Evidence, FoundSoftware, Linking, ShootdownSource, SoftwareKind};

/// jemalloc reads its own fresh metadata before it writes it, so that each page is first the zero page and then copied, with a
/// shootdown: seen in `_rjem_je_base_alloc_edata` of 5.3.1 under Polars. Without a name all copies by code of a jemalloc that is
/// a library of its own count: in any other file the copying code may be the program's.
pub(crate) fn in_metadata(found: &[FoundSoftware], source: &ShootdownSource) -> bool {
    if source.cause != Cause::Cow {
        return false;
    }
    match &source.caller_symbol {
        Some(symbol) => ["je_", "base_alloc", "edata_"]
            .iter()
            .any(|part| symbol.contains(part)),
        None => found.iter().any(|f| {
            f.kind == SoftwareKind::Jemalloc
                && f.linking == Linking::SharedLibrary
                && source.caller_module.as_ref() == Some(&f.module)
        }),
    }
}

/// Whether it is jemalloc's allocator of its own metadata that writes. Without a name it is taken for that: of 80 copies
/// in jemalloc's code 50 to 63 were.
pub(crate) fn is_metadata(found: &[FoundSoftware], source: &ShootdownSource) -> bool {
    match &source.caller_symbol {
        Some(symbol) => symbol.contains("base_alloc") || symbol.contains("edata_"),
        None => in_metadata(found, source),
    }
}

/// Counts copies of the zero page ([`is_of_zeros`]) to the most likely owner of the memory; returns the number that is nobody's.
///
/// A page is the zero page if it is read before it is written: by a program that looks first, or by `realloc` of a large block,
/// which copies all of it, also pages that nobody wrote yet. The stack shows only who writes. So the copies are taken for memory
/// that the writing file maps by itself, or for an allocator's: for the one that gives back most, since memory that was given
/// back is the zero page again. The C library writes for anybody (`memset`).
///
/// jemalloc's are all counted to it, because huge pages stop them whether or not the memory was given back before: of Polars 300
/// to 1,100 of 500 to 1,600 shootdowns of some runs, and 20 of 400 of others. To other allocators only as many are counted as
/// they gave pages back.
pub(crate) fn share_out(
    found: &[FoundSoftware],
    evidence: &Evidence,
    source: &ShootdownSource,
    split: &mut ShootdownSplit,
) -> u64 {
    let writer = source.caller_module.as_deref();
    let anybody = writer.is_none_or(is_libc_file);
    let own = split.own.iter_mut();
    let own = own.filter(|(file, _)| anybody || writer == Some(file.as_path()));
    let own = own.map(|(_, share)| (None, share));
    let allocators = found.iter().zip(&mut split.allocators);
    // Another file than the allocator's writes into its memory if its malloc is everybody's.
    let allocators = allocators.filter(|(f, _)| {
        let everybodys = f.kind.is_libc() || f.replaces_malloc;
        f.kind.has_allocator() && (anybody || everybodys || writer == Some(f.module.as_path()))
    });
    let allocators = allocators.map(|(f, share)| (Some(f.kind), share));
    let Some((kind, share)) = own
        .chain(allocators)
        .max_by_key(|(_, share)| share.gives_back())
        .filter(|(_, share)| share.gives_back() > 0)
    else {
        return source.shootdowns;
    };
    let refaulted = source
        .shootdowns
        .min(of_what_is_given_back(evidence, share));
    let counted = match kind {
        Some(SoftwareKind::Jemalloc) => source.shootdowns,
        _ => refaulted,
    };
    share.count_cause(source.cause, counted);
    share.refaulted += refaulted;
    source.shootdowns - counted
}

/// The allocator whose MADV_FREE split the huge pages that are copied now, by index. MADV_FREE of a part of a
/// huge page splits it, and since Linux 6.12 the kernel puts the zero page where a split one held zeros only
/// (mm/migrate.c: try_to_map_unused_to_zeropage()). Seen of mimalloc 2.2.4 and 2.3.2 with blocks of 1 to 64 MB:
/// 26 and 41 % of the shootdowns, and none with its MADV_FREE dropped. Not where the program forks, which copies
/// by itself, nor of a file's pages.
pub(crate) fn after_a_split(
    found: &[FoundSoftware],
    evidence: &Evidence,
    source: &ShootdownSource,
) -> Option<usize> {
    if !is_of_zeros(evidence, source) {
        return None;
    }
    let index = found
        .iter()
        .position(|f| f.kind == SoftwareKind::Mimalloc)?;
    let of_it = |s: &ShootdownSource| s.caller_module.as_ref() == Some(&found[index].module);
    let frees = |s: &ShootdownSource| s.cause == Cause::MadviseFree && of_it(s);
    evidence.sources.iter().any(frees).then_some(index)
}

/// The number of further copies that may be of memory which these calls give back, and which is mapped anew, read first and then
/// written: no more pages are copied than were given back. Memory that the preload library serves again, or zeroes in place, is
/// there and writable, so that nothing is copied. In a program that reads each page of a mapping before it writes it, 26 % of the
/// shootdowns were by munmap, the others by cow, and the library stopped 97 % of all.
///
/// The pages of a full flush are not known: 33 or more. They are taken for 4 MB, so that of larger blocks too little is
/// promised, and of a large table that stays, filled by a program that once unmaps something else, not much too much.
pub(crate) fn of_what_is_given_back(evidence: &Evidence, share: &Share) -> u64 {
    const FULL_FLUSH_PAGES: u64 = 1024;
    let of = |cause| share.causes.get(&cause).copied().unwrap_or(0);
    // MADV_FREE leaves the page there until memory is short.
    let calls = share.gives_back() - of(Cause::MadviseFree);
    // The kernel does not say which flushes were full. The share is taken from all flushes but copies, which are of a page each.
    let copies: u64 = evidence
        .sources
        .iter()
        .filter(|s| s.cause == Cause::Cow)
        .map(|s| s.shootdowns)
        .sum();
    let flushes = evidence.shootdowns.saturating_sub(copies).max(1);
    let pages = evidence.pages.saturating_sub(copies) + FULL_FLUSH_PAGES * evidence.full;
    let given = calls.saturating_mul(pages) / flushes;
    given.saturating_sub(share.refaulted)
}

/// Whether a copy can only be of the zero page: it lies in anonymous memory, and the process never forked.
pub(crate) fn is_of_zeros(evidence: &Evidence, source: &ShootdownSource) -> bool {
    let anonymous = source
        .region
        .as_deref()
        .is_some_and(|r| r.starts_with("anonymous memory"));
    let forks = evidence.sources.iter().any(|s| s.cause == Cause::Fork);
    source.cause == Cause::Cow && anonymous && !forks && evidence.from_start
}
