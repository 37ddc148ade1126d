//! The preload library `libquell.so`: for what no setting reaches.
//!
//! It stands between a program and the C library's mmap, munmap and madvise, so it reaches what calls those
//! by name, and nothing else.

use std::collections::BTreeMap;

use quell_event::{Cause, Mechanism};

use super::{Case, Memory, Offer, Remedy, Subject, Verdict, mimalloc, undecayed, unpurged};
use crate::conf::{SHIM_LIBRARY, SHIM_VARIABLE};
use crate::{Found, Kind, Linking, Touches};

/// Less than this keeps nothing that is worth keeping.
const LEAST: u64 = 4 << 20;
/// The largest of the blocks of which zeroing stopped nearly all.
const SMALL: u64 = 4 << 20;
/// The same for google/tcmalloc, which gives back what lies together: 1.8 to 5 MB where blocks have up to 4 MB, and 12 MB
/// where they have up to 64.
const SMALL_TOGETHER: u64 = 8 << 20;
/// Up to the largest blocks that were measured, and not `auto`, which stops at 1 to 2 MB, from where on zeroing takes
/// longer than giving back: of google/tcmalloc's 89 shootdowns `auto` left 24, and this 4.
const ZERO: &str = "zero=64M";
/// For google/tcmalloc with large blocks: what stays in place it may use again or not, and nobody can give it back
/// later, so that memory grows beyond the bound. With a bound of 1.2 times what was seen, `zero=64M` took 1.32 times the
/// memory and left 27 % of the shootdowns, and this 1.19 times and 20 % (medians of 6 runs).
const ZERO_SOME: &str = "zero=16M";
/// By so much the program forks as it works. Where fork and copies made 0.2 and 0.3 % of the shootdowns, zeroing stopped
/// 99.8 %; where they made 0.6 to 6 %, anything from 99 % to making them 20 times as many (docs/remedies.md).
const FORKS: f64 = 0.005;
/// What the program touches between two looks at its memory comes on top of the bound: at most a share of its memory,
/// and a few blocks besides, which are smaller in a small program. With bounds of 1.10 and 1.17 times what was seen,
/// churn and raw took 1.12 to 1.14 times, calloc 1.13 to 1.17, bursty 1.00, and large blocks 1.18 to 1.24. Of 40
/// programs the median took 0 to 3 % more than the bound. What is left matters: jemalloc's large blocks with decay 0
/// made 8.5 shootdowns (median of 18 runs) with a bound of 1.19 times, and 6 with 1.205.
fn above(seen: u64) -> u64 {
    seen / 24 + (3 << 20).min(seen / 32)
}

/// Of what a program has at its peak, about so much is not in use at another time, and may be kept without
/// that the peak grows.
const IDLE: f64 = 0.1;

/// Keeps unmapped regions for later mappings, and gives back in batches what is over.
pub(super) struct Cache;

/// Answers MADV_DONTNEED by zeroing in place.
pub(super) struct Zero;

/// What the cache gives to later mappings, or gives back in batches.
pub(super) const CACHED: [Cause; 2] = [Cause::Munmap, Cause::Mmap];
/// google/tcmalloc with large blocks has up to a tenth more in one run than in the next, so that a bound of a quarter over
/// the observed one was 1.18 to 1.30 times the others.
const VARIES: f64 = 1.0 / 12.0;
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
        "docs/remedies.md: raw mmap, measured on Linux 6.18: 2,846 shootdowns to 47 where no more memory was allowed than before, to 18 with 1.05 times"
    }

    fn preloads(&self) -> bool {
        true
    }

    fn touches(&self, _offer: &Offer) -> Touches {
        const TOUCHES: Touches = Touches::keeping(
            &[Mechanism::Unmap, Mechanism::Map],
            "what the program unmaps is kept and handed out again, without faults; files and reservations are passed on",
        );
        TOUCHES.and_asked()
    }

    fn consider(&self, case: &Case<'_>) -> Option<Verdict> {
        let files = case.part_of_files(&CACHED);
        let part = (case.part_with_copies(&CACHED) - files).max(0.0);
        let others = undecayed::concerns(case) || unpurged::concerns(case);
        if (part == 0.0 && files == 0.0) || !concerns(case) || others {
            return None;
        }
        let passed_on = || passed_on(case, part, files);
        if let Some(why) = refused(case).or_else(|| elsewhere(case)).or_else(passed_on) {
            return Some(Verdict::Refuse(why));
        }
        // The library zeroes unless it is told not to.
        let zero = if forks(case) { ",zero=off" } else { "" };
        Some(match Sizes::of(case) {
            Ok(sizes) => offer(
                sizes.settings() + zero,
                part * sizes.stops(case.evidence.mean_block()),
                sizes.memory(),
                sizes.cost("unmapped"),
            ),
            Err(why) => Verdict::refuse(why),
        })
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
        "ranges that are never used again: zeroing takes longer than giving back from 32 KB on if they are out of the cache, from 1 to 2 MB on if they are in it; a program that forks as it works, since each page that stays is copied"
    }

    fn source(&self) -> &'static str {
        "docs/remedies.md: jemalloc with decay 0 under a prototype, 971 shootdowns to 3.3 per 1,000 operations; with blocks of 1 to 64 MB, 1,087 to 127"
    }

    fn preloads(&self) -> bool {
        true
    }

    fn touches(&self, _offer: &Offer) -> Touches {
        const TOUCHES: Touches = Touches::keeping(
            &[Mechanism::Advise],
            "what is given back is zeroed in place, so that it is not faulted in again",
        );
        TOUCHES.and_asked()
    }

    fn consider(&self, case: &Case<'_>) -> Option<Verdict> {
        let part = case.part_with_copies(&ZEROED) - case.part_of_files(&ZEROED);
        if part <= 0.0 || !concerns(case) || undecayed::concerns(case) {
            return None;
        }
        // Its own setting does that, and what else it does is for `unpurged`; within a bound only this does: of 3.6.0's 123
        // shootdowns with blocks of 1 to 64 MB 14 to 19 were left, in 1.12 to 1.2 times the memory.
        if case
            .allocator(Kind::Mimalloc)
            .is_some_and(|f| mimalloc::setting(f).is_some() && !mimalloc::is_zeroed(case, f))
        {
            return None;
        }
        if let Some(why) = refused(case) {
            return Some(Verdict::Refuse(why));
        }
        if forks(case) {
            return Some(Verdict::refuse(
                "the preload library would zero what is given back in place, and the program forks as it works: \
                 what stays is then copied page by page, each with a shootdown, while a child has it too (with a \
                 child of 20 ms every 40 ms, 1,488 to 7,097 shootdowns became 4,498 to 55,627)",
            ));
        }
        Some(match Sizes::of(case) {
            Ok(sizes) => {
                let sizes = if is_google(case) && !is_small(case) {
                    sizes.without(VARIES)
                } else {
                    sizes
                };
                offer(
                    format!("{},{}", sizes.settings(), zero_up_to(case)),
                    part * zeroed(case, &sizes),
                    sizes.memory(),
                    sizes.cost("zeroed"),
                )
            }
            Err(why) => Verdict::refuse(why),
        })
    }
}

/// Whether what stays in place would be copied after a fork.
pub(super) fn forks(case: &Case<'_>) -> bool {
    case.copies >= FORKS
}

/// The share of what is given back in place that zeroing stops.
///
/// Measured: jemalloc with decay 0 under a prototype that kept 64 MB, 971 to 3.3 with blocks of 64 KB to 4 MB, and
/// 1,087 to 127 with 1 to 64 MB; google/tcmalloc within a quarter more memory, 78 to 98 % in six runs, since it
/// gives back what it does not use again soon, and the bound is reached; with what [`ZERO_SOME`] leaves, 80 to 86 % in
/// seven, in up to 1.30 times the memory, and with [`VARIES`] less room 70 to 83 % in four, in 1.17 to 1.22 times. A
/// program's own calls where any of 128 ranges is used next, half of them in use: 15, 46 and 66 % where the room was
/// 0.18, 0.25 and 0.93 of what was seen. What was zeroed serves no other address, so it takes room for all that is not
/// in use, and not only for what is used again soon. Assumed: blocks of unknown size are large, allocators use again
/// soon, and where there is little room for one that does, as many calls go to the kernel as the cache would miss.
fn zeroed(case: &Case<'_>, sizes: &Sizes) -> f64 {
    let best = match (is_google(case), is_small(case)) {
        (true, true) => 0.90,
        (true, false) => 0.78,
        (false, true) => 0.99,
        (false, false) => 0.88,
    };
    let soon = match case.subject {
        Subject::Own(_) => sizes.of_seen(),
        _ => 1.0,
    };
    let mean = case.evidence.mean_block();
    sizes.stops(mean).min(best).min(soon)
}

fn is_google(case: &Case<'_>) -> bool {
    case.allocator(Kind::GoogleTcmalloc).is_some()
}

/// Whether the blocks that are given back are small; those of unknown size are not.
fn is_small(case: &Case<'_>) -> bool {
    let most = if is_google(case) {
        SMALL_TOGETHER
    } else {
        SMALL
    };
    let mean = case.evidence.mean_block();
    mean.is_some_and(|bytes| bytes <= most)
}

fn zero_up_to(case: &Case<'_>) -> &'static str {
    if is_google(case) && !is_small(case) {
        ZERO_SOME
    } else {
        ZERO
    }
}

pub(super) fn offer(settings: String, stops: f64, memory: Memory, cost: String) -> Verdict {
    let sets = BTreeMap::from([
        ("LD_PRELOAD".to_owned(), SHIM_LIBRARY.to_owned()),
        (SHIM_VARIABLE.to_owned(), settings),
    ]);
    Verdict::Offer(vec![Offer {
        sets,
        stops,
        memory,
        cost,
        ..Offer::default()
    }])
}

/// Why nothing that is kept would be asked for again, if so. mimalloc 1.0.0 takes what it gets: 709 shootdowns
/// under churn became 169 with a cache of 256 MB. For 2 and later there is `unpurged`.
fn elsewhere(case: &Case<'_>) -> Option<String> {
    let found = case.allocator(Kind::Mimalloc)?;
    (!found.below(1, 3, 0)).then(|| {
        "the preload library can't keep what it unmaps: mimalloc 1 asks for addresses of its own choice when it maps again"
            .to_owned()
    })
}

/// How much the library may keep, in bytes.
pub(super) struct Sizes {
    /// The most that was resident before, if it was measured.
    seen: Option<u64>,
    /// By how much that may grow.
    more: u64,
    /// How much may be resident, where that was measured.
    bound: u64,
}

impl Sizes {
    /// What the budget leaves; an error says that it is too little.
    pub(super) fn of(case: &Case<'_>) -> Result<Sizes, &'static str> {
        let (seen, more) = match (case.evidence.max_rss, case.room) {
            (Some(seen), Some(room)) => {
                (Some(seen), room.saturating_sub(above(seen)).max(room / 4))
            }
            // What the library keeps if nothing is said.
            _ => (None, 64 << 20),
        };
        if more < LEAST {
            return Err("the memory budget leaves the preload library nothing to keep memory in");
        }
        Ok(Sizes {
            seen,
            more,
            bound: seen.unwrap_or(0) + more,
        })
    }

    /// Less by this share of what was seen; so the bound may be below what was seen.
    pub(super) fn without(self, share: f64) -> Sizes {
        let without = (self.seen.unwrap_or(0) as f64 * share) as u64;
        Sizes {
            more: self.more.saturating_sub(without).max(self.more / 4),
            bound: self.bound.saturating_sub(without),
            ..self
        }
    }

    /// For QUELL_SHIM. With the bound of resident memory the cache may be as large as that: with less, a program that
    /// frees all that it has takes a shootdown for every 36 MB of what is over, and may map it again.
    pub(super) fn settings(&self) -> String {
        match self.seen {
            Some(_) => {
                let bound = self.bound >> 20;
                format!("cache={}M,rss={bound}M", bound.max(64))
            }
            None => format!("cache={}M", self.more >> 20),
        }
    }

    /// These settings, and no more resident memory than the bound.
    pub(super) fn bounded(&self, settings: &str) -> String {
        match self.seen {
            Some(_) => format!("{settings},rss={}M", self.bound >> 20),
            None => settings.to_owned(),
        }
    }

    /// The same without a cache of what is unmapped.
    pub(super) fn without_cache(&self) -> String {
        match self.seen {
            Some(_) => format!("cache=0,rss={}M", self.bound >> 20),
            None => "cache=0,keep=1G".to_owned(),
        }
    }

    pub(super) fn memory(&self) -> Memory {
        // Where little is left, the bound is a quarter of that.
        let above = self.seen.map_or(0, above);
        Memory::UpTo(self.more + above.min(3 * self.more))
    }

    /// What was observed says nothing of how many processes there are: so this says what holds of each.
    pub(super) fn cost(&self, what: &str) -> String {
        let kept = match self.seen {
            Some(seen) => {
                let (bound, seen) = (self.bound >> 20, seen >> 20);
                let more = if bound < seen {
                    format!("{} MB less than", seen - bound)
                } else {
                    format!("{} MB more than", bound - seen)
                };
                format!(
                    "{what} memory is kept while no more than {bound} MB of the program are resident, {more} were seen"
                )
            }
            None => format!("up to {} MB of {what} memory is kept", self.more >> 20),
        };
        format!("{kept}; each process that it starts may keep as much again")
    }

    /// The share of the calls that give back `mean` bytes each which it stops.
    pub(super) fn stops(&self, mean: Option<u64>) -> f64 {
        let idle = self.seen.map_or(0.0, |seen| seen as f64 * IDLE);
        kept(self.more as f64 + idle, mean)
    }

    /// The room as a share of what was seen, 1 where that is not known.
    fn of_seen(&self) -> f64 {
        let share = |seen: u64| self.more as f64 / seen.max(1) as f64;
        self.seen.map_or(1.0, share).min(1.0)
    }
}

/// The share of the calls that give back `mean` bytes each which `pool` bytes stop. A fit: of the raw workload,
/// 64 KB to 4 MB, 3.5 % were left with 17 MB, 1.5 % with 28 MB, 0.3 % with 64 MB.
fn kept(pool: f64, mean: Option<u64>) -> f64 {
    const MEASURED_MEAN: u64 = 1 << 20;
    let blocks = pool / mean.unwrap_or(MEASURED_MEAN).max(4096) as f64;
    (1.0 - (1.0 + 0.35 * blocks).powi(-2)).min(0.99)
}

/// Whether the calls are any that a library can stand before at all; the kernel's own are not.
pub(super) fn concerns(case: &Case<'_>) -> bool {
    matches!(case.subject, Subject::Allocator(_) | Subject::Own(_))
}

/// Why the library would pass on what this origin unmaps, if so. It keeps private anonymous memory that can be read and written, and
/// nothing else (docs/shim.md, "What it believes"): no files, no addresses that are reserved and opened later, no code.
fn passed_on(case: &Case<'_>, kept: f64, files: f64) -> Option<String> {
    if kept == 0.0 && files > 0.0 {
        return Some(
            "they are on mappings of files, which the preload library passes on: it keeps anonymous memory"
                .to_owned(),
        );
    }
    // Who changes the rights of memory more often than it unmaps any makes code, or opens what it had reserved.
    let protects = case.part(&[Cause::Mprotect]);
    (matches!(case.subject, Subject::Own(_)) && protects > kept).then(|| {
        "most of its calls change what may be done with memory (mprotect): code, or addresses that were reserved, neither of \
         which the preload library keeps"
            .to_owned()
    })
}

/// Why the library can't be loaded, or is not to be, if so.
pub(super) fn not_loaded(case: &Case<'_>) -> Option<String> {
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
    if let Some(why) = &case.evidence.unfit {
        return Some(why.clone());
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
    None
}

/// Why the library can't help here, if it can't.
pub(super) fn refused(case: &Case<'_>) -> Option<String> {
    if let Some(why) = not_loaded(case) {
        return Some(why);
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

    /// Check that the fit says what was measured.
    #[test]
    fn as_measured() {
        let mean = Some(1_300_000);
        for (pool, left) in [(17.0, 0.036), (28.0, 0.015), (64.0, 0.003)] {
            let stops = kept(pool * 1024.0 * 1024.0, mean);
            assert!((stops - (1.0 - left)).abs() < 0.01, "{pool}: {stops}");
        }
        assert!(kept(16e6, Some(64 << 20)) < 0.2);
    }

    proptest! {
        /// Check that it is a share, and that more memory never stops less.
        #[test]
        fn is_a_share(pool in 0..1u64 << 50, more in 0..1u64 << 50, mean in proptest::option::of(any::<u64>())) {
            let stops = kept(pool as f64, mean);
            prop_assert!((0.0..=1.0).contains(&stops));
            prop_assert!(kept((pool + more) as f64, mean) >= stops);
        }
    }
}
