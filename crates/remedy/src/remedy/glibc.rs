//! glibc: take memory from the heap, keep it there, or take it in huge pages.

use quell_event::Mechanism;

use super::{
    HUGE_FAULTS_TOUCHED, MANY_FAULTS, MemoryGrowth, Offer, Remedy, RemedyAnswer, RemedyCase,
    heap_trim, one_variable,
};
use crate::{SoftwareKind, Touches};

/// Larger than any block or heap that matters.
const HUGE_THRESHOLD: &str = "4294967296";
/// One arena means one lock. On two CPUs nothing was lost by it, and above eight nobody should try.
const CPUS_MEASURED: u32 = 2;
const CPUS_MOST: u32 = 8;

/// Never map a block of its own, never trim the heap.
pub(super) const GLIBC_KEEP: Remedy = Remedy {
    id: "glibc.keep",
    stops: "munmap of large blocks, and brk and madvise(MADV_DONTNEED) where heaps are trimmed",
    worse: "mmap_threshold without trim_threshold: 692 shootdowns per 1,000 operations where the default makes 8; arena_max=1 on many CPUs, where all threads share its lock (not measured)",
    source: "docs/remedies-measured.md: allocation churn, measured on glibc 2.36, Linux 6.18",
    touches: Touches::keeping(
        &[
            Mechanism::Unmap,
            Mechanism::Map,
            Mechanism::Remap,
            Mechanism::Brk,
            Mechanism::Advise,
            Mechanism::Protect,
        ],
        "free(3) neither unmaps a block nor trims a heap, so that neither is mapped, grown or faulted in again",
    ),
    consider: consider_glibc_keep,
    ..Remedy::BY_SETTING
};

fn consider_glibc_keep(case: &RemedyCase<'_>) -> Option<RemedyAnswer> {
    let found = case.allocator_of_kind(SoftwareKind::Glibc)?;
    if found.is_below(2, 26, 0) || (found.version.is_none() && found.conf_env.is_none()) {
        return Some(RemedyAnswer::refuse(
            "this glibc is older than 2.26 or of unknown age, and has no or other tunables",
        ));
    }
    // Two loads were measured: 64 KB to 4 MB, and 1 to 64 MB, with a mean of 1 and 16 MB.
    let big = case.has_large_blocks();
    // Setting any of these turns the dynamic threshold off, which alone is much worse: so the
    // limits go up together. Up to 2.34 an mmap_threshold over 32 MB is ignored; mmap_max=0 isn't.
    let direct = if found.at_least(2, 35, 0) {
        format!("glibc.malloc.mmap_threshold={HUGE_THRESHOLD}")
    } else {
        "glibc.malloc.mmap_max=0".to_owned()
    };
    // malloc_trim(3) gives back under any setting.
    let reached = (1.0 - heap_trim::asked_for(case)).max(0.0);
    let offer = |keys: &[&str], stops: f64, grows: f64, untried: bool| Offer {
        sets: one_variable("GLIBC_TUNABLES", keys.join(":")),
        stops: stops * reached,
        memory: MemoryGrowth::Share(grows),
        cost: cost_text(big, grows),
        untried,
        ..Offer::default()
    };
    let trim = format!("glibc.malloc.trim_threshold={HUGE_THRESHOLD}");
    // The larger step by which heaps grow keeps blocks over a heap's end from being mapped.
    let pad = "glibc.malloc.top_pad=67108864";
    // With small and with large blocks 8 and 360 shootdowns per 1,000 operations became 0 and 0 with the pad, 0.8 and 173
    // without, and 0 and 0 with one arena.
    let mut offers = vec![
        offer(
            &[&direct, &trim, pad],
            0.97,
            if big { 0.54 } else { 0.19 },
            false,
        ),
        offer(
            &[&direct, &trim],
            if big { 0.52 } else { 0.9 },
            if big { 0.26 } else { 0.10 },
            false,
        ),
    ];
    if let Some(cpus) = case.evidence.cpus.filter(|n| *n <= CPUS_MOST) {
        let keys = [
            "glibc.malloc.mmap_max=0",
            &trim,
            pad,
            "glibc.malloc.arena_max=1",
        ];
        // 720 MB for 612 with large blocks, and 117 for 133 with small ones.
        let grows = if big { 0.18 } else { -0.12 };
        let mut one = offer(&keys, 0.97, grows, cpus > CPUS_MEASURED);
        one.cost
            .push_str("; one arena is one lock for all threads, measured on two CPUs only");
        offers.insert(0, one);
    }
    Some(RemedyAnswer::Offer(offers))
}

/// Ask for huge pages under the heap and large blocks, so that one fault brings 2 MB.
pub(super) const GLIBC_HUGE_PAGES: Remedy = Remedy {
    id: "glibc.huge-pages",
    stops: "no shootdown: page faults of 4 KB in large blocks, each 512 of which become one",
    worse: "memory that is touched thinly is resident whole, and a huge page is zeroed whole; where the host has none to give they are dear; after a fork a write copies 2 MB",
    source: "glibc 2.35 NEWS and manual, glibc.malloc.hugetlb=1: madvise(MADV_HUGEPAGE). What it wins differs by the hour: only runs tell",
    touches: HUGE_FAULTS_TOUCHED,
    consider: |case| {
        let found = case.allocator_of_kind(SoftwareKind::Glibc)?;
        let faults = case.evidence.page_faults.unwrap_or(0);
        // Where the program forks as it works, a write would copy 2 MB.
        if !found.at_least(2, 35, 0) || faults < MANY_FAULTS || case.forks_at_work() {
            return None;
        }
        Some(RemedyAnswer::to_try(
            one_variable("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1"),
            "memory grows where blocks are touched thinly; not measured how much",
        ))
    },
    ..Remedy::BY_SETTING
};

fn cost_text(big: bool, grows: f64) -> String {
    let blocks = if big {
        "with blocks of 1 to 64 MB"
    } else {
        "under churn of 64 KB to 4 MB"
    };
    let change = if grows < 0.0 { "less" } else { "more" };
    format!(
        "freed memory stays resident: {:.0} % {change} at the peak {blocks}, measured",
        grows.abs() * 100.0
    )
}
