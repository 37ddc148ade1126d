//! NumPy: it asks for huge pages under arrays of 4 MB and more, on memory that is malloc's.
//!
//! The kernel keeps that advice for the address when the block is freed, so that the next block there faults in huge pages.

use quell_event::Mechanism;

use super::{MUCH_HUGE_TIME, Offer, Remedy, RemedyAnswer, RemedyCase, one_variable};
use crate::{SoftwareKind, Touches};

/// Has it not ask.
pub(super) struct NumpyUnadvised;

const ADVICE_VARIABLE: &str = "NUMPY_MADVISE_HUGEPAGE";

impl Remedy for NumpyUnadvised {
    fn id(&self) -> &'static str {
        "numpy.no-huge-pages"
    }

    fn stops(&self) -> &'static str {
        "no shootdown: NumPy's madvise(MADV_HUGEPAGE), and the huge pages that are found, compacted and zeroed for it"
    }

    fn worse(&self) -> &'static str {
        "arrays of 4 MB and more are faulted in by 4 KB: where huge pages are there to be had, that is slower"
    }

    fn source(&self) -> &'static str {
        "numpy.org/doc, Global Configuration Options, NUMPY_MADVISE_HUGEPAGE; numpy/numpy#15545 and #31590; docs/remedies-measured.md"
    }

    fn touches(&self, _offer: &Offer) -> Touches {
        Touches::everywhere(
            &[
                Mechanism::FaultHuge,
                Mechanism::Zeroing,
                Mechanism::CompactDirect,
            ],
            "arrays are faulted in by 4 KB as they are used; the faults of 4 KB come on top",
        )
    }

    fn consider(&self, case: &RemedyCase<'_>) -> Option<RemedyAnswer> {
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
}
