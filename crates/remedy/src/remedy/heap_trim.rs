//! malloc_trim(3) that the program calls itself: glibc gives back whole free pages of every heap then, whatever its tunables
//! say. The preload library can stand before that call, and drops it while memory is not short.

use std::path::Path;

use quell_event::{Cause, Mechanism};

use super::shim_library::{LibrarySizes, check_loading, library_offer};
use super::{MANY_FAULTS, Offer, Remedy, RemedyCase};
use crate::evidence::Evidence;
use crate::function_names::is_libc_file;
use crate::{SoftwareKind, Touches};

/// The library does nothing else, so that the measured gain belongs to this remedy alone.
const DROP_SETTINGS: &str = "malloc_trim=drop,cache=0,zero=off,free=pass";

/// The share of these calls' shootdowns that is stopped: each call is answered without one of the kernel's
/// (crates/shim/tests/rules/trims.c).
const STOPPED_SHARE: f64 = 0.99;

/// The share of an origin's shootdowns that the program's own calls of malloc_trim(3) made.
pub(super) fn asked_for(case: &RemedyCase<'_>) -> f64 {
    if case.allocator_of_kind(SoftwareKind::Glibc).is_none() {
        return 0.0;
    }
    heap_trim_shootdowns(case.evidence) as f64 / case.shootdowns().max(1) as f64
}

/// The shootdowns that malloc_trim(3) made.
fn heap_trim_shootdowns(evidence: &Evidence) -> u64 {
    let gives_back = |cause| matches!(cause, Cause::MadviseDontneed | Cause::Brk);
    let by_trim = evidence.sources.iter().filter(|s| {
        let module = s.caller_module.as_deref();
        let name = s.caller_symbol.as_deref().unwrap_or_default();
        gives_back(s.cause) && module.is_some_and(is_libc_file) && is_trim(name)
    });
    by_trim.map(|s| s.shootdowns).sum()
}

/// As glibc has it, and as it is called inside.
fn is_trim(symbol: &str) -> bool {
    let name = symbol.trim_start_matches('_');
    let name = name.split(['.', '@']).next().unwrap_or(name);
    name == "malloc_trim"
}

/// A file of the program's, and not the C library, that names the function: nobody else can have called it by name.
fn trim_caller(evidence: &Evidence) -> Option<&Path> {
    let mut named = evidence.wrappers.iter();
    let names = |(file, wrappers): &(&std::path::PathBuf, &crate::Wrappers)| {
        wrappers.may_trim()
            && !is_libc_file(file)
            && !crate::conf::is_shim_library(&file.to_string_lossy())
    };
    named.find(names).map(|(file, _)| file.as_path())
}

/// Has the library drop the program's own calls of malloc_trim(3).
pub(super) const DROP_HEAP_TRIM: Remedy = Remedy {
    id: "shim.malloc-trim",
    stops: "madvise(MADV_DONTNEED) and brk of a malloc_trim(3) that the program calls itself, and the page faults after it",
    worse: "free memory of the heap stays while memory is not short; where the trim was all that kept a heap of many arenas small it grows to the bound; a call through a handle of the C library (Python's ctypes) is not reached",
    source: "docs/remedies-measured.md: a trim every 100 ms, measured on glibc 2.36, Linux 6.18; amule-org/amule#1156, haproxy/haproxy#1884 and #2091; \
         malloc_trim(3)",
    touches: Touches {
        asked: true,
        ..Touches::keeping(
            &[Mechanism::Advise, Mechanism::Brk],
            "what the program's own malloc_trim gives back stays, and is not faulted in again",
        )
    },
    helps_without_shootdowns: true,
    consider: |case| {
        case.allocator_of_kind(SoftwareKind::Glibc)?;
        let part = asked_for(case);
        let faults = case.evidence.page_faults.unwrap_or(0);
        // Without threads side by side there is no shootdown, and a trim costs the faults after it.
        let may = part > 0.0 || faults >= MANY_FAULTS && trim_caller(case.evidence).is_some();
        may.then(|| drop_heap_trim(case, part).into())
    },
    ..Remedy::BY_LIBRARY
};

fn drop_heap_trim(case: &RemedyCase<'_>, part: f64) -> Result<Offer, String> {
    // `check_reach` would refuse glibc, whose own calls the library can't stop; this one is the program's call of glibc.
    check_loading(case)?;
    let sizes = LibrarySizes::within_budget(case)?;
    Ok(library_offer(
        sizes.with_bound(DROP_SETTINGS),
        part * STOPPED_SHARE,
        sizes.memory_growth(),
        sizes.cost_text("free"),
    ))
}
