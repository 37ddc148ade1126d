//! Go: collect less often.

use std::collections::BTreeMap;

use quell_event::{Cause, Mechanism};

use super::{MUCH_HUGE_TIME, MemoryGrowth, Offer, Remedy, RemedyAnswer, RemedyCase, one_variable};
use crate::{FoundSoftware, SoftwareKind, Touches};

const GROWTH_PERCENT: u64 = 400;

/// Lets the heap grow to five times its live objects before it is collected, or to a limit.
pub(super) const GOGC: Remedy = Remedy {
    id: "go.gogc",
    stops: "the scavenger's madvise(MADV_DONTNEED), of which each collection makes new work",
    worse: "GODEBUG=madvdontneed=0: 9,495 shootdowns became 14,805, so it is never set; a GOMEMLIMIT below what lives, which makes the collector run all the time",
    source: "docs/remedies-measured.md: runtimes, measured on Linux 6.18: GOGC=400 made 9,495 shootdowns 635, GOGC=off with GOMEMLIMIT=1GiB 711",
    touches: Touches::keeping(
        &[Mechanism::Advise],
        "fewer collections leave fewer free pages to give back and to fault in again; the collector's own time comes on top and is no part of it",
    ),
    consider: consider_gogc,
    wins_beyond_account: true,
    ..Remedy::BY_SETTING
};

fn consider_gogc(case: &RemedyCase<'_>) -> Option<RemedyAnswer> {
    let found = case.allocator_of_kind(SoftwareKind::GoRuntime)?;
    match (case.env)("GOGC") {
        Some(set) if set == "off" => return Some(RemedyAnswer::refuse("GOGC is off already")),
        Some(set) if set.parse().is_ok_and(|n: u64| n >= GROWTH_PERCENT) => {
            return Some(RemedyAnswer::Refuse(format!("GOGC={set} is set already")));
        }
        _ => {}
    }
    let grow = Offer {
        sets: one_variable("GOGC", GROWTH_PERCENT.to_string()),
        stops: 0.93,
        // The heap is five times its live objects, and not twice.
        memory: MemoryGrowth::Share(1.5),
        cost: "the heap may grow to 5 times what lives, instead of twice".to_owned(),
        ..Offer::default()
    };
    let limit = memory_limit_offer(case, found);
    Some(RemedyAnswer::Offer(
        std::iter::once(grow).chain(limit).collect(),
    ))
}

/// Go 1.21.0 to 1.21.3, which ask for huge pages by themselves.
pub(super) const GO_TOOLCHAIN: Remedy = Remedy {
    id: "go.toolchain",
    stops: "madvise(MADV_COLLAPSE), and in 1.21.0 MADV_HUGEPAGE, which Go up to 1.21.3 calls with the lock of its heap held",
    worse: "nothing is known: 1.21.4 is a release of corrections",
    source: "golang/go#63334, corrected in 1.21.4, and #61718; not measured here",
    consider: consider_go_toolchain,
    ..Remedy::BY_SETTING
};

fn consider_go_toolchain(case: &RemedyCase<'_>) -> Option<RemedyAnswer> {
    /// The minimum share of the shootdowns.
    const OWN_ADVICE_SHARE: f64 = 0.05;
    let found = case.allocator_of_kind(SoftwareKind::GoRuntime)?;
    let asks = case.part_of_causes(&[Cause::MadviseOther, Cause::ThpCollapse]) >= OWN_ADVICE_SHARE
        || case.huge >= OWN_ADVICE_SHARE
        || case.evidence.huge_time_permille >= MUCH_HUGE_TIME;
    let is_one = found.at_least(1, 21, 0) && found.is_below(1, 21, 4);
    (is_one && asks).then(|| {
        RemedyAnswer::advise(
            &["build it with Go 1.21.4 or later"],
            "go.mod's toolchain line. Up to 1.21.3 the runtime collapses its heap into huge pages itself, which may \
             compact memory while all wait for the heap (golang/go#63334); no variable turns that off",
        )
    })
}

/// No collections until the program has grown by the rest of the budget (from Go 1.19 on). None where the program's memory was
/// not measured, nothing is left of the budget, the user has a limit already, or the version may be older.
fn memory_limit_offer(case: &RemedyCase<'_>, found: &FoundSoftware) -> Option<Offer> {
    let (room, peak) = (case.room?, case.evidence.max_rss?);
    let theirs = (case.env)("GOMEMLIMIT").is_some();
    if room == 0 || theirs || !found.at_least(1, 19, 0) {
        return None;
    }
    let limit = peak.saturating_add(room) >> 20;
    let sets = BTreeMap::from([
        ("GOGC".to_owned(), "off".to_owned()),
        ("GOMEMLIMIT".to_owned(), format!("{limit}MiB")),
    ]);
    Some(Offer {
        sets,
        stops: 0.92,
        memory: MemoryGrowth::UpTo(room),
        cost: format!(
            "the heap grows to {limit} MB before it is collected; measured with a limit of 1 GB, and how much a \
             closer one stops was not"
        ),
        untried: true,
        ..Offer::default()
    })
}
