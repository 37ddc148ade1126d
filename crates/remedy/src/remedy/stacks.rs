//! glibc: keep the stacks of threads that ended.

use quell_event::{Cause, Mechanism};

use super::{MemoryGrowth, Remedy, RemedyAnswer, RemedyCase, ShootdownOrigin, one_variable};
use crate::{SoftwareKind, Touches};

/// 1 GiB of addresses, 128 stacks of 8 MB.
const CACHED_STACK_BYTES: u64 = 1 << 30;

/// Lets more stacks wait for the next thread before they are unmapped.
pub(super) const STACK_CACHE: Remedy = Remedy {
    id: "glibc.stacks",
    stops: "munmap of the stacks of ended threads, where more than five of 8 MB ended and none began",
    worse: "the one madvise(MADV_DONTNEED) of each thread that ends stays: only threads that stay stop it",
    source: "glibc manual, Tunables, glibc.pthread.stack_cache_size (40 MB by default); glibc nptl/nptl-stack.c, __nptl_free_stacks. Not measured here",
    touches: Touches {
        again: false,
        ..Touches::keeping(
            &[Mechanism::Unmap, Mechanism::Map, Mechanism::Protect],
            "stacks wait for the next thread, while their pages are given back as before",
        )
    },
    consider: consider_stack_cache,
    ..Remedy::BY_SETTING
};

fn consider_stack_cache(case: &RemedyCase<'_>) -> Option<RemedyAnswer> {
    if !matches!(case.origin, ShootdownOrigin::Threads) {
        return None;
    }
    let glibc = case.found.iter().find(|f| f.kind == SoftwareKind::Glibc)?;
    let part = case.part_of_causes(&[Cause::Munmap]);
    if part == 0.0 {
        return Some(RemedyAnswer::refuse(
            "each thread that ends gives its stack back with one madvise(MADV_DONTNEED), and no setting stops \
             that: a pool of threads that stay would",
        ));
    }
    if !glibc.at_least(2, 34, 0) {
        return Some(RemedyAnswer::refuse(
            "glibc.pthread.stack_cache_size is a setting from glibc 2.34 on: a pool of threads that stay \
             would stop them",
        ));
    }
    Some(RemedyAnswer::offer_variables(
        one_variable(
            "GLIBC_TUNABLES",
            format!("glibc.pthread.stack_cache_size={CACHED_STACK_BYTES}"),
        ),
        part * 0.9,
        // Of a stack in the cache, madvise has given the pages back.
        MemoryGrowth::Share(0.0),
        "addresses, not memory: of a stack that waits, the pages were given back. By how it works; not measured here",
    ))
}
