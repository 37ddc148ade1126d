//! The base of every remedy by the preload library: whether it can be loaded, how much memory it may keep, and the settings for
//! that.

use std::collections::BTreeMap;

use quell_event::Cause;

use super::{MemoryGrowth, Offer, RemedyCase, ShootdownOrigin};
use crate::conf::{SHIM_LIBRARY, SHIM_VARIABLE};
use crate::{FoundSoftware, Linking, SoftwareKind};

/// Less than this keeps nothing that is worth keeping.
const MIN_KEPT_BYTES: u64 = 4 << 20;
/// From this share on forks are part of the program's work. Where fork and copies made 0.2 and 0.3 % of the shootdowns, zeroing
/// stopped 99.8 %; where they made 0.6 to 6 %, anything from 99 % to making them 20 times as many (docs/remedies-measured.md).
const MAX_FORK_SHARE: f64 = 0.005;
/// At any moment about this share of a program's peak memory is not in use, and may be kept without raising the peak.
const IDLE_MEMORY_SHARE: f64 = 0.1;

/// The memory that the program touches between two looks of the library comes on top of the bound: at most a share of its memory,
/// and a few blocks besides, which are smaller in a small program. With bounds of 1.10 and 1.17 times the observed memory, churn
/// and raw took 1.12 to 1.14 times, calloc 1.13 to 1.17, bursty 1.00, and large blocks 1.18 to 1.24. Of 40 programs the median
/// took 0 to 3 % more than the bound. Small differences of the bound matter: jemalloc's large blocks with decay 0 made 8.5
/// shootdowns (median of 18 runs) with a bound of 1.19 times, and 6 with 1.205.
fn above_bound(seen: u64) -> u64 {
    seen / 24 + (3 << 20).min(seen / 32)
}

/// The calls that the cache saves: it gives memory to later mappings, or gives it back in batches.
pub(super) const CACHED_CAUSES: [Cause; 2] = [Cause::Munmap, Cause::Mmap];

/// Whether memory that stays in place would be copied after a fork.
pub(super) fn is_copied_by_forks(case: &RemedyCase<'_>) -> bool {
    case.copies >= MAX_FORK_SHARE
}

/// The change by which the library is loaded with these settings.
pub(super) fn library_offer(
    settings: String,
    stops: f64,
    memory: MemoryGrowth,
    cost: String,
) -> Offer {
    Offer {
        sets: BTreeMap::from([
            ("LD_PRELOAD".to_owned(), SHIM_LIBRARY.to_owned()),
            (SHIM_VARIABLE.to_owned(), settings),
        ]),
        stops,
        memory,
        cost,
        ..Offer::default()
    }
}

/// How much the library may keep, in bytes.
pub(super) struct LibrarySizes {
    /// The most that was resident before, if it was measured.
    seen: Option<u64>,
    /// By how much that may grow.
    more: u64,
    /// How much may be resident, where that was measured.
    bound: u64,
}

impl LibrarySizes {
    /// The sizes that the budget allows; an error says that it is too little. What is touched above the bound is taken off the
    /// room first; a quarter of the room is left in any case.
    pub(super) fn within_budget(case: &RemedyCase<'_>) -> Result<LibrarySizes, String> {
        let (seen, more) = match (case.evidence.max_rss, case.room) {
            (Some(seen), Some(room)) => (
                Some(seen),
                room.saturating_sub(above_bound(seen)).max(room / 4),
            ),
            // The library's own default.
            _ => (None, 64 << 20),
        };
        if more < MIN_KEPT_BYTES {
            let why = "the memory budget leaves the preload library nothing to keep memory in";
            return Err(why.to_owned());
        }
        Ok(LibrarySizes {
            seen,
            more,
            bound: seen.unwrap_or(0) + more,
        })
    }

    /// Sizes that are smaller by this share of the observed memory; so the bound may lie below it.
    pub(super) fn less_share(self, share: f64) -> LibrarySizes {
        let without = (self.seen.unwrap_or(0) as f64 * share) as u64;
        LibrarySizes {
            more: self.more.saturating_sub(without).max(self.more / 4),
            bound: self.bound.saturating_sub(without),
            ..self
        }
    }

    /// The value of QUELL_SHIM. With the bound of resident memory the cache may be as large as the bound: a smaller one would
    /// cost a program that frees all its memory a shootdown for every 36 MB of surplus, which it may map again.
    pub(super) fn shim_settings(&self) -> String {
        match self.seen {
            Some(_) => {
                let bound = self.bound >> 20;
                format!("cache={}M,rss={bound}M", bound.max(64))
            }
            None => format!("cache={}M", self.more >> 20),
        }
    }

    /// These settings, and no more resident memory than the bound.
    pub(super) fn with_bound(&self, settings: &str) -> String {
        match self.seen {
            Some(_) => format!("{settings},rss={}M", self.bound >> 20),
            None => settings.to_owned(),
        }
    }

    /// The same without a cache of unmapped regions. Without a bound of resident memory `keep` bounds what stays: 1 GB is more
    /// than the library takes (docs/shim-reference.md), and so as much as it can.
    pub(super) fn without_cache(&self) -> String {
        match self.seen {
            Some(_) => format!("cache=0,rss={}M", self.bound >> 20),
            None => "cache=0,keep=1G".to_owned(),
        }
    }

    /// By how much memory grows at most: by the room, and by what is touched above the bound.
    pub(super) fn memory_growth(&self) -> MemoryGrowth {
        // Where little was left, a quarter of it became the room (`within_budget`), and so the rest is three times as much.
        let above = self.seen.map_or(0, above_bound);
        MemoryGrowth::UpTo(self.more + above.min(3 * self.more))
    }

    /// The observation does not say how many processes there are, so this states the cost of each.
    pub(super) fn cost_text(&self, what: &str) -> String {
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
        let idle = self
            .seen
            .map_or(0.0, |seen| seen as f64 * IDLE_MEMORY_SHARE);
        kept_share(self.more as f64 + idle, mean)
    }

    /// The room as a share of the observed memory, 1 at most, and 1 where that memory is not known.
    pub(super) fn of_seen(&self) -> f64 {
        let share = |seen: u64| self.more as f64 / seen.max(1) as f64;
        self.seen.map_or(1.0, share).min(1.0)
    }
}

/// The share of the calls that give back `mean` bytes each which `pool` bytes stop. A fit: of the raw workload,
/// 64 KB to 4 MB, 3.5 % were left with 17 MB, 1.5 % with 28 MB, 0.3 % with 64 MB.
fn kept_share(pool: f64, mean: Option<u64>) -> f64 {
    const MEASURED_MEAN: u64 = 1 << 20;
    let blocks = pool / mean.unwrap_or(MEASURED_MEAN).max(4096) as f64;
    (1.0 - (1.0 + 0.35 * blocks).powi(-2)).min(0.99)
}

/// Checks that the library can be loaded, and may be; an error says why not.
pub(super) fn check_loading(case: &RemedyCase<'_>) -> Result<(), String> {
    if (case.env)(SHIM_VARIABLE).is_some_and(|v| v.split(',').any(|w| w.trim() == "off")) {
        return Err("QUELL_SHIM=off is set".to_owned());
    }
    if case.evidence.secure {
        return Err(
            "the program runs with the rights of its file (set-user-ID or capabilities): the loader ignores \
             LD_PRELOAD there (ld.so(8), secure-execution mode)"
                .to_owned(),
        );
    }
    if let Some(why) = &case.evidence.unfit {
        return Err(why.clone());
    }
    let of = |f: &&FoundSoftware| match case.origin {
        ShootdownOrigin::Allocator(found) => f.module == found.module,
        ShootdownOrigin::Own(file) => f.module == *file,
        _ => false,
    };
    if case
        .found
        .iter()
        .filter(of)
        .any(|f| f.kind == SoftwareKind::GoRuntime)
    {
        return Err(
            "Go calls the kernel itself, and not through the C library: a preload library reaches none of it"
                .to_owned(),
        );
    }
    let libc = |linking| {
        let is = |f: &&FoundSoftware| f.kind.is_libc() && f.linking == linking;
        case.found.iter().any(|f| is(&f))
    };
    if !libc(Linking::SharedLibrary) {
        return Err(if libc(Linking::Static) {
            "the program is linked statically: nothing can be loaded before it"
        } else {
            "no C library was found in the program that one could be loaded before"
        }
        .to_owned());
    }
    Ok(())
}

/// Checks that the library can be loaded and reaches this origin; an error says why not.
pub(super) fn check_reach(case: &RemedyCase<'_>) -> Result<(), String> {
    check_loading(case)?;
    let ShootdownOrigin::Allocator(found) = case.origin else {
        return Ok(());
    };
    let why = match found.kind {
        SoftwareKind::Glibc => {
            "glibc's malloc calls munmap and madvise by names inside the library: nothing can stand between"
        }
        SoftwareKind::Musl => {
            "musl's malloc calls munmap and madvise by names inside the library: nothing can stand between"
        }
        SoftwareKind::Gperftools => "gperftools maps by system calls of its own",
        SoftwareKind::Jvm | SoftwareKind::Node | SoftwareKind::DotNet => {
            "it was not tried on this runtime, which reserves memory and generates code in it"
        }
        _ => return Ok(()),
    };
    Err(format!("the preload library can't help: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Check that the fit agrees with the measurements.
    #[test]
    fn as_measured() {
        let mean = Some(1_300_000);
        for (pool, left) in [(17.0, 0.036), (28.0, 0.015), (64.0, 0.003)] {
            let stops = kept_share(pool * 1024.0 * 1024.0, mean);
            assert!((stops - (1.0 - left)).abs() < 0.01, "{pool}: {stops}");
        }
        assert!(kept_share(16e6, Some(64 << 20)) < 0.2);
    }

    proptest! {
        /// Check that it is a share, and that more memory never stops less.
        #[test]
        fn is_a_share(pool in 0..1u64 << 50, more in 0..1u64 << 50, mean in proptest::option::of(any::<u64>())) {
            let stops = kept_share(pool as f64, mean);
            prop_assert!((0.0..=1.0).contains(&stops));
            prop_assert!(kept_share((pool + more) as f64, mean) >= stops);
        }
    }
}
