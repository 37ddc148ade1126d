//! jemalloc over the preload library: it gives back at once, and the library zeroes in place of that.
//!
//! jemalloc by itself keeps memory without a bound (decay -1), or gives it back after a while. Without a while (decay 0) it gives
//! back each extent as it is freed, and the library keeps resident memory within a bound.

use quell_event::Mechanism;

use super::shim_library::{LibrarySizes, check_reach, is_copied_by_forks, library_offer};
use super::{Offer, Remedy, RemedyAnswer, RemedyCase};
use crate::{SoftwareKind, Touches};

/// Of 5.3.0 with decay 0, two threads on two CPUs, Linux 6.18, 1,300 to 33,000 shootdowns, within the bound that a plan sets: 87 to 90 % were
/// stopped of churn, 88 to 91 % of calloc, 91 to 99 % of bursty (bench/remedies/workload), and 90 to 95 % of demo/polars_demo.py, at 0.6 to
/// 0.9 of the time. With `retain:false`, where jemalloc unmaps instead, it was as many of churn and calloc in as much memory, and 20 % of
/// the last, whose blocks are small or not used at all.
const BEST_STOPPED_SHARE: f64 = 0.88;
/// Of blocks of 1 to 64 MB 72 to 89 % were stopped with 5.3.0, and 46 % with 5.3.1: near the bound large ranges go at once.
const BEST_LARGE: f64 = 0.67;

/// Whether the origin is an allocator that this remedy is for: a jemalloc that is certainly 5.0.0 or newer, and whose variable is
/// known. [`super::shim`]'s remedies leave that one alone.
pub(super) fn applies_to(case: &RemedyCase<'_>) -> bool {
    let found = case.allocator_of_kind(SoftwareKind::Jemalloc);
    found.is_some_and(|f| f.at_least(5, 0, 0) && f.conf_env.is_some())
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
    let variable = case
        .allocator_of_kind(SoftwareKind::Jemalloc)?
        .conf_env
        .as_deref()?;
    let part = case.part_with_copies(&super::jemalloc::GIVES_BACK);
    (part > 0.0).then(|| give_back_at_once(case, variable, part).into())
}

fn give_back_at_once(case: &RemedyCase<'_>, variable: &str, part: f64) -> Result<Offer, String> {
    check_reach(case)?;
    let sizes = LibrarySizes::within_budget(case)?;
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
    let mut offer = library_offer(
        format!("{},zero={zero}", sizes.shim_settings()),
        stops,
        sizes.memory_growth(),
        sizes.cost_text("freed"),
    );
    offer.sets.insert(variable.to_owned(), keys);
    Ok(offer)
}
