//! jemalloc over the preload library: it gives back at once, and the library zeroes in place of that.
//!
//! jemalloc by itself keeps memory without a bound (decay -1), or gives it back after a while. Without a while (decay 0) it gives
//! back each extent as it is freed, and the library keeps resident memory within a bound.

use quell_event::Mechanism;

use super::shim_library::{LibrarySizes, is_copied_by_forks, offer_library, refusal};
use super::{Offer, Remedy, RemedyAnswer, RemedyCase, ShootdownOrigin};
use crate::{SoftwareKind, Touches};

/// Of 5.3.0 with decay 0, two threads on two CPUs, Linux 6.18, 1,300 to 33,000 shootdowns, within the bound that a plan sets: 87 to 90 % were
/// stopped of churn, 88 to 91 % of calloc, 91 to 99 % of bursty (bench/remedies/workload), and 90 to 95 % of demo/polars_demo.py, at 0.6 to
/// 0.9 of the time. With `retain:false`, where jemalloc unmaps instead, it was as many of churn and calloc in as much memory, and 20 % of
/// the last, whose blocks are small or not used at all.
const BEST_STOPPED_SHARE: f64 = 0.88;
/// Of blocks of 1 to 64 MB 72 to 89 % were stopped with 5.3.0, and 46 % with 5.3.1: near the bound large ranges go at once.
const BEST_LARGE: f64 = 0.67;

/// Whether this is for an allocator that it is for. The library's other remedies leave that one alone.
pub(super) fn applies_to(case: &RemedyCase<'_>) -> bool {
    match case.origin {
        ShootdownOrigin::Allocator(found) => {
            found.kind == SoftwareKind::Jemalloc
                && found.at_least(5, 0, 0)
                && found.conf_env.is_some()
        }
        _ => false,
    }
}

/// Has jemalloc 5 give back at once, and zeroes that.
pub(super) const UNDECAYED: Remedy = Remedy {
    id: "shim.jemalloc",
    stops: "what jemalloc 5 gives back, within a bound of memory: it does so at once, and the preload library zeroes in place",
    worse: "slower than jemalloc.decay, since memory is zeroed at each turn; half to nine tenths of the time of dirty_decay_ms:0 alone; where the library is not loaded, each free gives back and shoots",
    source: "docs/remedies-measured.md: jemalloc 5.3.0 and 5.3.1 with dirty_decay_ms:0, measured on Linux 6.18; its doc/jemalloc.xml.in, opt.dirty_decay_ms",
    touches: Touches::keeping(
        &[Mechanism::Advise, Mechanism::Unmap, Mechanism::Map],
        "what is unmapped or purged is kept and handed out again, without faults",
    )
    .and_asked(),
    consider: consider_undecayed,
    ..Remedy::BY_LIBRARY
};

fn consider_undecayed(case: &RemedyCase<'_>) -> Option<RemedyAnswer> {
    if !applies_to(case) {
        return None;
    }
    let part = case.part_with_copies(&super::jemalloc::GIVES_BACK);
    if part == 0.0 {
        return None;
    }
    if let Some(why) = refusal(case) {
        return Some(RemedyAnswer::Refuse(why));
    }
    let found = case.allocator_of_kind(SoftwareKind::Jemalloc)?;
    let variable = found.conf_env.clone()?;
    let sizes = match LibrarySizes::within_budget(case) {
        Ok(sizes) => sizes,
        Err(why) => return Some(RemedyAnswer::refuse(why)),
    };
    let memory = sizes.memory_growth();
    // At once and not after a while, because nothing bounds the memory that jemalloc holds back.
    let mut keys = "dirty_decay_ms:0,muzzy_decay_ms:0".to_owned();
    let best = if case.has_large_blocks() {
        BEST_LARGE
    } else {
        BEST_STOPPED_SHARE
    };
    let stops = part * sizes.stops(case.evidence.mean_block()).min(best);
    // `auto` does not measure the faults that zeroing saves.
    let mut zero = "64M";
    if is_copied_by_forks(case) {
        // Pages shared with a child would be copied to be zeroed: jemalloc unmaps instead, and the library keeps that memory.
        zero = "off";
        keys.push_str(",retain:false");
    }
    let library = offer_library(
        format!("{},zero={zero}", sizes.shim_settings()),
        stops,
        memory,
        sizes.cost_text("freed"),
    );
    let RemedyAnswer::Offer(offers) = library else {
        return Some(library);
    };
    let with = |mut o: Offer| {
        o.sets.insert(variable.clone(), keys.clone());
        o
    };
    Some(RemedyAnswer::Offer(offers.into_iter().map(with).collect()))
}
