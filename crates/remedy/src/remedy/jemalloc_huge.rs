//! jemalloc: huge pages, for the program's blocks or for its own metadata, each by itself.
//!
//! The plan without runs takes them together with the settings that keep memory ([`super::jemalloc`]), as that stops the most
//! shootdowns. Time is another question: huge pages alone may win it, or may be all that loses. So each is tried alone.

use quell_event::Mechanism;

use super::jemalloc::{HUGE_METADATA_SETTING, HUGE_SETTING, MUCH_METADATA, conf_variable};
use super::{MANY_FAULTS, Offer, Remedy, RemedyAnswer, RemedyCase, one_variable};
use crate::{SoftwareKind, Touches};

/// Asks for huge pages under the program's blocks.
pub(super) struct JemallocHugePages;

/// Asks for huge pages under jemalloc's own metadata.
pub(super) struct JemallocHugeMetadata;

/// One key to try; none where it is set already, or jemalloc's variable is not known.
fn to_try(case: &RemedyCase<'_>, key: &str, cost: &str) -> Option<RemedyAnswer> {
    let found = case.allocator_of_kind(SoftwareKind::Jemalloc)?;
    // thp takes this word since 5.1.
    let variable = conf_variable(found)
        .ok()
        .filter(|_| found.at_least(5, 1, 0))?;
    let name = key.split(':').next().unwrap_or(key);
    let theirs = (case.env)(variable).unwrap_or_default();
    let is_set = theirs
        .split(',')
        .any(|pair| pair.split(':').next() == Some(name));
    (!is_set).then(|| RemedyAnswer::to_try(one_variable(variable, key), cost))
}

impl Remedy for JemallocHugePages {
    fn id(&self) -> &'static str {
        "jemalloc.huge-pages"
    }

    fn stops(&self) -> &'static str {
        "no shootdown for sure: page faults of 4 KB, each 512 of which become one"
    }

    fn worse(&self) -> &'static str {
        "thp:always without the settings that keep memory raised shootdowns to 4 times in one program; memory that is touched thinly is resident whole; after a fork a write copies 2 MB"
    }

    fn source(&self) -> &'static str {
        "jemalloc's doc/jemalloc.xml.in, opt.thp, a setting since 5.1; docs/remedies-measured.md: what huge pages win differs by the hour, so that only runs tell"
    }

    fn touches(&self, _offer: &Offer) -> Touches {
        Touches::everywhere(
            &[Mechanism::FaultAnon, Mechanism::FaultEntry],
            "one fault brings 2 MB where there were 512; what is zeroed stays the same",
        )
    }

    fn consider(&self, case: &RemedyCase<'_>) -> Option<RemedyAnswer> {
        let faults = case.evidence.page_faults.unwrap_or(0);
        if faults < MANY_FAULTS || !case.bears_huge_pages() {
            return None;
        }
        to_try(
            case,
            HUGE_SETTING,
            "6 to 7 % more memory for Polars, measured together with others",
        )
    }
}

impl Remedy for JemallocHugeMetadata {
    fn id(&self) -> &'static str {
        "jemalloc.huge-metadata"
    }

    fn stops(&self) -> &'static str {
        "copies of jemalloc's own metadata, each page of which is read before it is written"
    }

    fn worse(&self) -> &'static str {
        "each arena, four a CPU, has metadata of its own, with up to 2 MB that are not used"
    }

    fn source(&self) -> &'static str {
        "jemalloc's doc/jemalloc.xml.in, opt.metadata_thp, a setting since 5.1; docs/remedies-measured.md: Polars, 3 % more memory"
    }

    fn touches(&self, _offer: &Offer) -> Touches {
        Touches::everywhere(
            &[
                Mechanism::FaultCow,
                Mechanism::FaultAnon,
                Mechanism::FaultEntry,
            ],
            "the metadata is faulted in by 2 MB, and not read first and copied then; what else is faulted in stays",
        )
    }

    fn consider(&self, case: &RemedyCase<'_>) -> Option<RemedyAnswer> {
        if case.of_metadata() < MUCH_METADATA || !case.bears_huge_pages() {
            return None;
        }
        to_try(
            case,
            HUGE_METADATA_SETTING,
            "3 % more memory for Polars, measured",
        )
    }
}
