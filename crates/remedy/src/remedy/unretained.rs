//! jemalloc over the preload library: it unmaps what it would give back in place, and the library keeps it.
//!
//! jemalloc by itself keeps without a bound (decay -1), or gives back page by page. Without its own store of
//! addresses (`retain:false`) it unmaps whole extents, which the library keeps within a bound of resident
//! memory, and hands out again.

use super::shim::{Sizes, forks, offer, refused};
use super::{Case, Offer, Remedy, Subject, Verdict};
use crate::Kind;

/// Has jemalloc 5 unmap, and keeps that.
pub(super) struct Unretained;

/// At best: 2,458 to 3,144 became 28 to 36, and 1,192 to 1,340 became 12 to 18, with 1.15 times the memory.
const BEST: f64 = 0.99;

/// Large blocks come in larger steps between two looks at the memory: with a bound of 1.21 times what was seen they took
/// 1.22 to 1.26 times, and left 0.3 to 0.8 % of the shootdowns (medians of five pairs, decay 0, 5.0.1 to 5.3.1); with one of
/// 1.18, 1.20 to 1.25 times, and 0.7 to 1 %: the peak of one run that was watched is up to 4 % from the next's.
const STEPS: f64 = 1.0 / 20.0;

/// Whether this is for an allocator that it is for. The library's other remedies leave that one alone.
pub(super) fn concerns(case: &Case<'_>) -> bool {
    match case.subject {
        Subject::Allocator(found) => {
            found.kind == Kind::Jemalloc && found.at_least(5, 0, 0) && found.conf_env.is_some()
        }
        _ => false,
    }
}

impl Remedy for Unretained {
    fn id(&self) -> &'static str {
        "shim.jemalloc"
    }

    fn stops(&self) -> &'static str {
        "what jemalloc 5 gives back, within a bound of memory: it unmaps, and the preload library keeps"
    }

    fn worse(&self) -> &'static str {
        "slower than jemalloc.decay, since memory is zeroed at each turn: 4 to 5 times the time of that under churn, a quarter of the time of dirty_decay_ms:0 alone; without the library retain:false unmaps and shoots"
    }

    fn source(&self) -> &'static str {
        "docs/remedies.md: jemalloc 5.3.0 with dirty_decay_ms:0, measured on Linux 6.18; its doc/jemalloc.xml.in, opt.retain"
    }

    fn preloads(&self) -> bool {
        true
    }

    fn consider(&self, case: &Case<'_>) -> Option<Verdict> {
        if !concerns(case) {
            return None;
        }
        let part = case.part_with_copies(&super::jemalloc::GIVES_BACK);
        if part == 0.0 {
            return None;
        }
        if let Some(why) = refused(case) {
            return Some(Verdict::Refuse(why));
        }
        let found = case.allocator(Kind::Jemalloc)?;
        let variable = found.conf_env.clone()?;
        let sizes = match Sizes::of(case) {
            Ok(sizes) => sizes,
            Err(why) => return Some(Verdict::refuse(why)),
        };
        let memory = sizes.memory();
        let sizes = if case.has_large_blocks() {
            sizes.without(STEPS)
        } else {
            sizes
        };
        // Unmapped at once and not after a while: what jemalloc holds back, nobody bounds.
        let keys = "dirty_decay_ms:0,muzzy_decay_ms:0,retain:false".to_owned();
        let stops = part * sizes.stops(case.evidence.mean_block()).min(BEST);
        let zero = if forks(case) { "off" } else { "auto" };
        let library = offer(
            format!("{},zero={zero}", sizes.settings()),
            stops,
            memory,
            sizes.cost("freed"),
        );
        let Verdict::Offer(offers) = library else {
            return Some(library);
        };
        let with = |mut o: Offer| {
            o.sets.insert(variable.clone(), keys.clone());
            o
        };
        Some(Verdict::Offer(offers.into_iter().map(with).collect()))
    }
}
