//! NumPy: it asks for huge pages under arrays of 4 MB and more, on memory that is malloc's.
//!
//! The kernel keeps that advice for the address when the block is freed, so that whoever gets it next faults in huge pages.

use quell_event::Mechanism;

use super::{Case, MUCH_HUGE_TIME, Offer, Remedy, Verdict, one};
use crate::{Kind, Touches};

/// Has it not ask.
pub(super) struct Unadvised;

const VARIABLE: &str = "NUMPY_MADVISE_HUGEPAGE";

impl Remedy for Unadvised {
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

    fn consider(&self, case: &Case<'_>) -> Option<Verdict> {
        case.program(&[Kind::NumPy])?;
        if case.evidence.huge_time_permille < MUCH_HUGE_TIME {
            return None;
        }
        if (case.env)(VARIABLE).is_some() {
            return Some(Verdict::refuse(format!("{VARIABLE} is set already")));
        }
        Some(Verdict::to_try(
            one(VARIABLE, "0"),
            "512 page faults for one, and more TLB misses",
        ))
    }
}
