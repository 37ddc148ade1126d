//! NumPy: it asks for huge pages under arrays of 4 MB and more, on memory that is malloc's.
//!
//! The kernel keeps that advice for the address when the block is freed, so that the next block there faults in huge pages.

use super::{HUGE_PAGE_WORK, MUCH_HUGE_TIME, Remedy, RemedyAnswer, RemedyCase, one_variable};
use crate::{SoftwareKind, Touches};

const ADVICE_VARIABLE: &str = "NUMPY_MADVISE_HUGEPAGE";

/// Has it not ask.
pub(super) const NUMPY_UNADVISED: Remedy = Remedy {
    id: "numpy.no-huge-pages",
    stops: "no shootdown: NumPy's madvise(MADV_HUGEPAGE), and the huge pages that are found, compacted and zeroed for it",
    worse: "arrays of 4 MB and more are faulted in by 4 KB: where huge pages are there to be had, that is slower",
    source: "numpy.org/doc, Global Configuration Options, NUMPY_MADVISE_HUGEPAGE; numpy/numpy#15545 and #31590; docs/remedies-measured.md",
    touches: Touches::everywhere(
        HUGE_PAGE_WORK,
        "arrays are faulted in by 4 KB as they are used; the faults of 4 KB come on top",
    ),
    consider: consider_numpy_unadvised,
    ..Remedy::BY_SETTING
};

fn consider_numpy_unadvised(case: &RemedyCase<'_>) -> Option<RemedyAnswer> {
    case.program_of_kinds(&[SoftwareKind::NumPy])?;
    if case.evidence.huge_time_permille < MUCH_HUGE_TIME {
        return None;
    }
    if (case.env)(ADVICE_VARIABLE).is_some() {
        return Some(RemedyAnswer::refuse(format!(
            "{ADVICE_VARIABLE} is set already"
        )));
    }
    Some(RemedyAnswer::to_try(
        one_variable(ADVICE_VARIABLE, "0"),
        "512 page faults for one, and more TLB misses",
    ))
}
