//! jemalloc: keep freed memory instead of giving it back, or give it back in batches.

use quell_event::{Cause, Mechanism};

use super::{MANY_FAULTS, MemoryGrowth, Offer, Remedy, RemedyAnswer, RemedyCase, one_variable};
use crate::{FoundSoftware, SoftwareKind, Touches};

/// The growth where memory was given back at once before, and is now kept in one arena for all large blocks, without huge pages:
/// 14 to 17 %
/// of demo/polars_demo.py, and under bench/remedies/workload 21 to 28 % (churn), 17 to 22 % (calloc), 4 to 8 % (bursty) and, of blocks of
/// 1 to 64 MB, 23 to 29 %, with jemalloc 5.3.0 and 5.3.1. With huge pages 47 % of churn.
const KEPT_NOW_GROWS: f64 = 0.25;
const LARGE_KEPT_NOW_GROWS: f64 = 0.28;
/// Huge pages for blocks of the program, and for jemalloc's own metadata too.
pub(super) const HUGE_SETTING: &str = "thp:always";
pub(super) const HUGE_METADATA_SETTING: &str = "metadata_thp:always";
const HUGE_METADATA: &str = "thp:always,metadata_thp:always";
/// From this share of the shootdowns on it is worth its memory to stop the copies of metadata.
pub(super) const MUCH_METADATA: f64 = 0.02;
/// The causes that give pages back. `Other` is a total without known causes.
pub(super) const GIVES_BACK: [Cause; 6] = [
    Cause::MadviseDontneed,
    Cause::MadviseFree,
    Cause::MadviseOther,
    Cause::Munmap,
    Cause::Mremap,
    Cause::Other,
];

/// Turns the timed return of freed pages off, and stops the rest too: see the comments inside.
pub(super) const JEMALLOC_DECAY: Remedy = Remedy {
    id: "jemalloc.decay",
    stops: "madvise(MADV_DONTNEED and MADV_FREE) and munmap of freed pages, and with huge pages or, from 5.3.1 on, calloc_madvise_threshold the one for a large calloc",
    worse: "memory is never given back, so a program that peaks once keeps its peak; thp:always without the rest raised shootdowns to 4 times; on many cores the one arena for large blocks may be contended (seen on two only); up to 5.3.0 a large calloc makes one whatever is set, but with thp:always: decay alone made 1 to 606 of them 1,344 to 3,591",
    source: "docs/remedies-measured.md: Polars and churn, measured on Linux 6.18; jemalloc 5.3.1 src/arena.c, src/ehooks.c and doc/jemalloc.xml.in for its options",
    touches: Touches::keeping(
        &[Mechanism::Advise, Mechanism::Unmap],
        "freed pages are neither purged nor unmapped, so that none is faulted in again; with thp:always one fault brings 2 MB",
    ),
    everywhere_with: Some((HUGE_SETTING, &[Mechanism::FaultAnon, Mechanism::FaultEntry])),
    consider: consider_jemalloc_decay,
    ..Remedy::BY_SETTING
};

fn consider_jemalloc_decay(case: &RemedyCase<'_>) -> Option<RemedyAnswer> {
    let found = case.allocator_of_kind(SoftwareKind::Jemalloc)?;
    let variable = match conf_variable(found) {
        Ok(variable) => variable,
        Err(why) => return Some(RemedyAnswer::refuse(why)),
    };
    if found.is_below(5, 0, 0) {
        return Some(old_version_answer(case, found, variable));
    }
    if !found.at_least(5, 0, 0) {
        return Some(RemedyAnswer::refuse(
            "its version is not known, and a key that it does not know is only an error message",
        ));
    }
    Some(RemedyAnswer::Offer(decay_offers(case, found, variable)))
}

/// jemalloc 5: with huge pages where they help, and without.
fn decay_offers(case: &RemedyCase<'_>, found: &FoundSoftware, variable: &str) -> Vec<Offer> {
    // As in the loads of 1 to 64 MB and 1 to 32 MB that were measured.
    let big = case.has_large_blocks();
    let mut keys = vec!["dirty_decay_ms:-1", "muzzy_decay_ms:-1"];
    // These settings keep memory from growing. One arena for all blocks from 64 KB on, so that memory which one thread freed
    // serves another; and free extents may be cut up for blocks up to 2^16 times smaller, not 2^6, instead of
    // mapping more beside them.
    // In 5.2 that arena gives back at once, whatever decay says: with a threshold of 65536 churn's 74 became
    // 2,863, with 0, which turns it off, 17.
    let bounded = found.at_least(5, 3, 0);
    if bounded {
        keys.extend(["oversize_threshold:65536", "lg_extent_max_active_fit:16"]);
    } else if found.at_least(5, 2, 0) {
        keys.push("oversize_threshold:0");
    }
    // Where it has given back at once so far, the memory that jemalloc keeps by default is not there yet: 95 and 167 MB became
    // 152 and 241.
    let set = (case.env)(variable).or_else(|| found.built_in.clone());
    let at_once = set.is_some_and(|s| s.split(',').any(|s| s.trim() == "dirty_decay_ms:0"));
    // 5.2 under churn: 112 to 35 with huge pages, and to 24 without, in 1.43 and 1.16 times the memory; large
    // blocks 126 to 30, 1.35 times.
    let apart = found.at_least(5, 2, 0) && !bounded;
    let faults = case.evidence.page_faults.is_none_or(|n| n >= MANY_FAULTS);
    let offer = |key: Option<&str>, grows: f64, cost: &str| {
        let huge = key.is_some_and(|k| k.starts_with(HUGE_SETTING));
        let metadata = key == Some(HUGE_METADATA);
        let kept_now = at_once && !huge && found.at_least(5, 3, 1);
        let grows = match (at_once, apart, huge) {
            (true, ..) if kept_now && big => LARGE_KEPT_NOW_GROWS,
            (true, ..) if kept_now => KEPT_NOW_GROWS,
            (true, ..) => 0.5,
            (_, true, true) => 0.43,
            (_, true, false) => grows.max(0.16),
            _ => grows,
        };
        // With huge pages a copy is of 2 MB. jemalloc's own metadata has none without its setting: of 63 copies of metadata 50
        // were left under Polars, and of some 10 under churn next to none.
        let left = if metadata { 0.0 } else { 0.5 };
        let copied = case.part_of_causes(&[Cause::Cow]) - left * case.of_metadata();
        let given = case.part_of_causes(&GIVES_BACK) + if huge { copied } else { 0.0 };
        let keys: Vec<&str> = keys.iter().copied().chain(key).collect();
        let measured = if kept_now {
            "14 to 17 % more at the peak for Polars than with dirty_decay_ms:0, 4 to 28 % under churn, measured"
        } else if at_once {
            "44 and 60 % more under churn than with dirty_decay_ms:0, measured"
        } else if apart {
            "43 % more under churn with huge pages and 16 % without, 35 % with blocks of 1 to 64 MB, measured"
        } else if bounded {
            "5 to 17 % more at the peak for Polars, measured (over 40 % without oversize_threshold and \
             lg_extent_max_active_fit), and 22 to 27 % with blocks of 1 to 32 MB"
        } else {
            "not measured how much on this version"
        };
        Offer {
            sets: one_variable(variable, keys.join(",")),
            // Before 5.2 huge pages do not help a calloc: 5.1.0's 928 became 1,013.
            untried: found.is_below(5, 2, 0) && faults,
            stops: given * if apart { 0.7 } else { 0.95 },
            memory: if bounded || at_once || apart {
                MemoryGrowth::Share(grows)
            } else {
                MemoryGrowth::Unknown
            },
            cost: format!("freed memory stays resident: {measured}{cost}"),
            ..Offer::default()
        }
    };
    // thp:always (a word since 5.1) takes away page faults, and the zeroing of a large calloc by MADV_DONTNEED, which no decay
    // setting stops up to 5.3.0. metadata_thp takes away the rest (jemalloc's own metadata is read before it is written, and each
    // of its pages then costs a shootdown to replace the zero page), for 3 % of the memory: worth it where that is a large part
    // of the shootdowns. Polars: 305 to 792 became 50 to 57 without it and 4 to 15 with it.
    let thp = found.at_least(5, 1, 0) && faults && case.bears_huge_pages();
    let mut out = Vec::new();
    if thp {
        let grows = if big { 0.3 } else { 0.12 };
        let cost = ", of which huge pages are 6 to 7 %; after a fork a write copies 2 MB (take thp out for a Redis that saves)";
        out.push(offer(Some(HUGE_SETTING), grows, cost));
        if bounded && case.of_metadata() >= MUCH_METADATA {
            let more = ", and 3 % for huge pages under its metadata";
            let grows = grows + metadata_grows(case);
            out.push(offer(Some(HUGE_METADATA), grows, &format!("{cost}{more}")));
        }
    }
    let without = if big { 0.22 } else { 0.05 };
    if found.at_least(5, 3, 1) {
        // From 8 MB on calloc would ask the kernel for zeros; up to 4 GB it clears them itself.
        out.push(offer(
            Some("calloc_madvise_threshold:4294967296"),
            without,
            "",
        ));
    } else if !thp {
        // Then a calloc of a large block that was never given back makes one.
        out.push(Offer {
            untried: faults,
            ..offer(
                None,
                without,
                "; if it callocs blocks of 64 KB and more, these make more shootdowns than before (1 to 606 \
                 became 1,344 to 3,591): prove it",
            )
        });
    }
    out
}

/// By which share huge pages under its metadata make memory grow: 25 MB of 905 on two CPUs, where it has eight arenas, each
/// with metadata of its own; four a CPU on others. At least the 3 % that were measured, also where CPUs or memory are not known.
fn metadata_grows(case: &RemedyCase<'_>) -> f64 {
    const A_CPU: u64 = 13 << 20;
    let most = u64::from(case.evidence.cpus.unwrap_or(1)) * A_CPU;
    let rss = case.evidence.max_rss.unwrap_or(u64::MAX);
    (most as f64 / rss.max(1) as f64).max(0.03)
}

/// Gives freed pages back many ranges at a time (5.3.1).
pub(super) const JEMALLOC_BATCH: Remedy = Remedy {
    id: "jemalloc.batch",
    stops: "about half of the madvise(MADV_DONTNEED) of freed pages: up to 128 ranges go in one process_madvise(2)",
    worse: "kernels before 6.16 take one range at a time all the same, and those before 6.13 refuse it; a build without process_madvise ignores the setting",
    source: "docs/remedies-measured.md: jemalloc 5.3.1 on Linux 6.18; its doc/jemalloc.xml.in, opt.process_madvise_max_batch",
    touches: Touches {
        again: false,
        ..Touches::keeping(
            &[Mechanism::Advise],
            "as much is given back and faulted in again, by fewer calls",
        )
    },
    consider: |case| {
        let found = case.allocator_of_kind(SoftwareKind::Jemalloc)?;
        if !found.at_least(5, 3, 1) {
            return None;
        }
        let variable = conf_variable(found).ok()?;
        Some(RemedyAnswer::offer_variables(
            one_variable(variable, "process_madvise_max_batch:128"),
            0.5 * case.part_of_causes(&[Cause::MadviseDontneed]),
            MemoryGrowth::Share(0.0),
            "no memory: it is given back as before, in fewer calls",
        ))
    },
    ..Remedy::BY_SETTING
};

pub(super) fn conf_variable(found: &FoundSoftware) -> Result<&str, &'static str> {
    let name = found.conf_env.as_deref();
    name.ok_or("the name of its environment variable was not found")
}

/// jemalloc 3 and 4 return pages when dirty ones exceed a ratio of active ones; -1 never does.
/// From 4.1 they can decay instead, where the user (or the program) has set it.
fn old_version_answer(
    case: &RemedyCase<'_>,
    found: &FoundSoftware,
    variable: &str,
) -> RemedyAnswer {
    let set = (case.env)(variable)
        .or_else(|| found.built_in.clone())
        .unwrap_or_default();
    let decays = found.at_least(4, 1, 0) && set.contains("purge:decay");
    let keys = if decays {
        "purge:decay,decay_time:-1"
    } else {
        "lg_dirty_mult:-1"
    };
    RemedyAnswer::offer_variables(
        one_variable(variable, keys),
        0.95 * case.part_of_causes(&GIVES_BACK),
        MemoryGrowth::Unknown,
        "freed memory stays resident; not measured how much (jemalloc 4.5.0: 770 shootdowns per 1,000 operations to 0)",
    )
}
