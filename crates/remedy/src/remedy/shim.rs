//! The preload library `libquell.so`: for what no setting reaches.
//!
//! It stands between a program and the C library's mmap, munmap and madvise, so it reaches what calls those
//! by name, and nothing else.

use std::collections::BTreeMap;

use quell_event::Cause;

use super::{Case, Memory, Offer, Remedy, Subject, Verdict};
use crate::conf::{SHIM_LIBRARY, SHIM_VARIABLE};
use crate::{Found, Kind, Linking};

/// What the library keeps if nothing is said.
const DEFAULT_CACHE: u64 = 64 << 20;
/// Less than this keeps nothing that is worth keeping.
const LEAST: u64 = 4 << 20;
/// With more, nothing more was stopped.
const MOST: u64 = 512 << 20;
/// Ranges that one process_madvise(2) takes (UIO_MAXIOV in the kernel's include/uapi/linux/uio.h).
const BATCH: f64 = 1024.0;
/// Above this a memset costs more than the faults that it saves.
const ZERO_BEST: u64 = 4 << 20;

/// Keeps unmapped regions for later mappings, and gives back in batches what is over.
pub(super) struct Cache;

/// Answers MADV_DONTNEED by zeroing in place.
pub(super) struct Zero;

/// What the cache gives to later mappings, or gives back in batches.
const CACHED: [Cause; 2] = [Cause::Munmap, Cause::Mmap];
/// What zeroing, and dropping MADV_FREE, take the place of.
const ZEROED: [Cause; 2] = [Cause::MadviseDontneed, Cause::MadviseFree];

impl Remedy for Cache {
    fn id(&self) -> &'static str {
        "shim.cache"
    }

    fn stops(&self) -> &'static str {
        "munmap of anonymous memory by the program itself, or by an allocator whose settings don't reach it"
    }

    fn worse(&self) -> &'static str {
        "use of memory after munmap is not caught any more (QUELL_SHIM=strict catches it); a cache much smaller than what is unmapped and mapped again stops little"
    }

    fn source(&self) -> &'static str {
        "docs/remedies.md: raw mmap, measured with a prototype on Linux 6.18: 2,836 shootdowns to 113 with 64 MB in batches, to 61 with 512 MB"
    }

    fn preloads(&self) -> bool {
        true
    }

    fn consider(&self, case: &Case<'_>) -> Option<Verdict> {
        let part = case.part(&CACHED);
        if part == 0.0 || !concerns(case) {
            return None;
        }
        if let Some(why) = refused(case) {
            return Some(Verdict::Refuse(why));
        }
        let size = room(case);
        if size < LEAST {
            return Some(Verdict::refuse(
                "the memory budget leaves the preload library nothing to keep regions in",
            ));
        }
        let stops = part * cached(size, case.evidence.mean_block());
        Some(offer(
            format!("cache={}M", size >> 20),
            stops,
            size,
            format!("up to {} MB of unmapped memory is kept", size >> 20),
        ))
    }
}

impl Remedy for Zero {
    fn id(&self) -> &'static str {
        "shim.zero"
    }

    fn stops(&self) -> &'static str {
        "madvise(MADV_DONTNEED) of small ranges, which are zeroed instead, and MADV_FREE, which is dropped"
    }

    fn worse(&self) -> &'static str {
        "ranges that are never used again: zeroing loses from 32 KB on if they are out of the cache, from 1 to 2 MB on if they are in it"
    }

    fn source(&self) -> &'static str {
        "docs/remedies.md: jemalloc with decay 0 under a prototype, 971 shootdowns to 3.3 per 1,000 operations; with blocks of 1 to 64 MB, 1,087 to 127"
    }

    fn preloads(&self) -> bool {
        true
    }

    fn consider(&self, case: &Case<'_>) -> Option<Verdict> {
        let part = case.part(&ZEROED);
        if part == 0.0 || !concerns(case) {
            return None;
        }
        if let Some(why) = refused(case) {
            return Some(Verdict::Refuse(why));
        }
        let size = room(case);
        if size < LEAST {
            return Some(Verdict::refuse(
                "the memory budget leaves the preload library nothing to keep zeroed memory in",
            ));
        }
        let small = case.evidence.mean_block().is_none_or(|b| b <= ZERO_BEST);
        // 971 to 3.3, and 1,087 to 127: see source().
        let stops = part * if small { 0.99 } else { 0.88 };
        let keep = case
            .room
            .map(|_| format!(",keep={}M", size >> 20))
            .unwrap_or_default();
        Some(offer(
            format!("zero=auto{keep}"),
            stops,
            size,
            format!("up to {} MB of zeroed memory stays resident", size >> 20),
        ))
    }
}

fn offer(settings: String, stops: f64, size: u64, cost: String) -> Verdict {
    let sets = BTreeMap::from([
        ("LD_PRELOAD".to_owned(), SHIM_LIBRARY.to_owned()),
        (SHIM_VARIABLE.to_owned(), settings),
    ]);
    Verdict::Offer(vec![Offer {
        sets,
        stops,
        memory: Memory::UpTo(size),
        cost,
        ..Offer::default()
    }])
}

/// How much it may keep: what the budget leaves, or half of it where both remedies of the library are wanted.
fn room(case: &Case<'_>) -> u64 {
    let both = case.part(&CACHED) > 0.0 && case.part(&ZEROED) > 0.0;
    let size = case
        .room
        .map_or(DEFAULT_CACHE, |room| if both { room / 2 } else { room });
    size.min(MOST) >> 20 << 20
}

/// The share of munmaps that a cache of this size stops, where each gives back `mean` bytes.
///
/// What is over the bound goes in batches of half the cache, one shootdown each: that is exact where nothing
/// is ever mapped again, and too little where something is. With 64 MB and blocks of 64 KB to 4 MB it gives
/// 96 %, and 96 % was measured. What a cache of 512 MB left there, 2 %, is taken for what none stops.
pub(crate) fn cached(cache: u64, mean: Option<u64>) -> f64 {
    const MEASURED_MEAN: u64 = 1 << 20;
    let mean = mean.unwrap_or(MEASURED_MEAN).max(4096);
    let batch = (cache as f64 / 2.0 / mean as f64).min(BATCH);
    (batch / (1.0 + batch)).min(0.98)
}

/// Whether the calls are any that a library can stand before at all; the kernel's own are not.
fn concerns(case: &Case<'_>) -> bool {
    matches!(case.subject, Subject::Allocator(_) | Subject::Own(_))
}

/// Why the library can't help here, if it can't.
fn refused(case: &Case<'_>) -> Option<String> {
    if (case.env)(SHIM_VARIABLE).is_some_and(|v| v.split(',').any(|w| w.trim() == "off")) {
        return Some("QUELL_SHIM=off is set".to_owned());
    }
    if case.evidence.secure {
        return Some(
            "the program runs with the rights of its file (set-user-ID or capabilities): the loader ignores \
             LD_PRELOAD there (ld.so(8), secure-execution mode)"
                .to_owned(),
        );
    }
    let of = |f: &&Found| match case.subject {
        Subject::Allocator(found) => f.module == found.module,
        Subject::Own(file) => f.module == *file,
        _ => false,
    };
    if case
        .found
        .iter()
        .filter(of)
        .any(|f| f.kind == Kind::GoRuntime)
    {
        return Some(
            "Go calls the kernel itself, and not through the C library: a preload library reaches none of it"
                .to_owned(),
        );
    }
    let libc = |linking| {
        let is = |f: &&Found| f.kind.is_libc() && f.linking == linking;
        case.found.iter().any(|f| is(&f))
    };
    if !libc(Linking::SharedLibrary) {
        return Some(
            if libc(Linking::Static) {
                "the program is linked statically: nothing can be loaded before it"
            } else {
                "no C library was found in the program that one could be loaded before"
            }
            .to_owned(),
        );
    }
    let Subject::Allocator(found) = case.subject else {
        return None;
    };
    let why = match found.kind {
        Kind::Glibc => {
            "glibc's malloc calls munmap and madvise by names inside the library: nothing can stand between"
        }
        Kind::Musl => {
            "musl's malloc calls munmap and madvise by names inside the library: nothing can stand between"
        }
        Kind::Gperftools => "gperftools maps by system calls of its own",
        Kind::Jvm | Kind::Node | Kind::DotNet => {
            "it was not tried on this runtime, which reserves memory and generates code in it"
        }
        _ => return None,
    };
    Some(format!("the preload library can't help: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Check that the model says of the prototype what was measured of it: 2,836 shootdowns became 113
    /// with 64 MB, and 61 with 512 MB.
    #[test]
    fn as_measured() {
        let mean = Some(1_300_000);
        assert!((cached(64 << 20, mean) - (1.0 - 113.0 / 2836.0)).abs() < 0.01);
        assert!((cached(512 << 20, mean) - (1.0 - 61.0 / 2836.0)).abs() < 0.01);
        assert!(cached(16 << 20, Some(64 << 20)) < 0.2);
    }

    proptest! {
        /// Check that it is a share, and that more memory never stops less.
        #[test]
        fn is_a_share(cache in 0..u64::MAX, more in 0..u64::MAX, mean in proptest::option::of(any::<u64>())) {
            let stops = cached(cache, mean);
            prop_assert!((0.0..=1.0).contains(&stops));
            prop_assert!(cached(cache.saturating_add(more), mean) >= stops);
        }
    }
}
