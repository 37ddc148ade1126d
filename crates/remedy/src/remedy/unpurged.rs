//! mimalloc over the preload library: purging is off, and what is freed by MADV_FREE whatever is set is dropped.
//!
//! The library keeps nothing that mimalloc unmaps: it asks for addresses of its own choice when it maps again.

use quell_event::Cause;

use super::mimalloc::{STOPS, setting};
use super::shim::{Sizes, offer, refused};
use super::{Case, Offer, Remedy, Verdict};
use crate::Kind;

/// Turns purging off, and drops MADV_FREE.
pub(super) struct Unpurged;

impl Remedy for Unpurged {
    fn id(&self) -> &'static str {
        "shim.mimalloc"
    }

    fn stops(&self) -> &'static str {
        "MADV_FREE of blocks over about 16 MB, which mimalloc makes from 2.1 on whatever is set, and MADV_DONTNEED"
    }

    fn worse(&self) -> &'static str {
        "freed blocks stay in memory until they are used again, within the bound"
    }

    fn source(&self) -> &'static str {
        "docs/remedies.md: blocks of 1 to 64 MB, measured on Linux 6.18: 2.1.2 from 69 to 1, 2.2.4 from 472 to 4, 2.3.2 from 276 to 2"
    }

    fn preloads(&self) -> bool {
        true
    }

    fn consider(&self, case: &Case<'_>) -> Option<Verdict> {
        let found = case.allocator(Kind::Mimalloc)?;
        let (variable, value) = setting(found)?;
        if case.part(&[Cause::MadviseFree]) == 0.0 {
            return None;
        }
        if let Some(why) = refused(case) {
            return Some(Verdict::Refuse(why));
        }
        let sizes = match Sizes::of(case) {
            Ok(sizes) => sizes,
            Err(why) => return Some(Verdict::refuse(why)),
        };
        let library = offer(
            format!("{},zero=off", sizes.without_cache()),
            STOPS * case.part(&[Cause::MadviseFree, Cause::MadviseDontneed, Cause::Cow]),
            sizes.memory(),
            sizes.cost("freed"),
        );
        let Verdict::Offer(offers) = library else {
            return Some(library);
        };
        let with = |mut o: Offer| {
            o.sets.insert(variable.to_owned(), value.to_owned());
            o
        };
        Some(Verdict::Offer(offers.into_iter().map(with).collect()))
    }
}
