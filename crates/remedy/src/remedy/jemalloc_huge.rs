//! jemalloc: huge pages, for the program's blocks or for its own metadata, each by itself.
//!
//! The plan without runs takes them together with the settings that keep memory ([`super::jemalloc`]), as that stops the most
//! shootdowns. Time is another question: huge pages alone may win it, or may be all that loses. So each is tried alone.

use quell_event::Mechanism;

use super::jemalloc::{HUGE_METADATA_SETTING, HUGE_SETTING, MUCH_METADATA, conf_variable};
use super::{HUGE_FAULTS_TOUCHED, MANY_FAULTS, Remedy, RemedyAnswer, RemedyCase, one_variable};
use crate::{SoftwareKind, Touches};

/// One key to try; none where the user has set it, whatever to, or where jemalloc's variable is not known, or its version may be
/// older than the key's word.
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

/// Asks for huge pages under the program's blocks.
pub(super) const JEMALLOC_HUGE_PAGES: Remedy = Remedy {
    id: "jemalloc.huge-pages",
    stops: "no shootdown for sure: page faults of 4 KB, each 512 of which become one",
    worse: "thp:always without the settings that keep memory raised shootdowns to 4 times in one program; memory that is touched thinly is resident whole; after a fork a write copies 2 MB",
    source: "jemalloc's doc/jemalloc.xml.in, opt.thp, a setting since 5.1; docs/remedies-measured.md: what huge pages win differs by the hour, so that only runs tell",
    touches: HUGE_FAULTS_TOUCHED,
    consider: |case| {
        let faults = case.evidence.page_faults.unwrap_or(0);
        if faults < MANY_FAULTS || !case.bears_huge_pages() {
            return None;
        }
        to_try(
            case,
            HUGE_SETTING,
            "6 to 7 % more memory for Polars, measured together with others",
        )
    },
    ..Remedy::BY_SETTING
};

/// Asks for huge pages under jemalloc's own metadata.
pub(super) const JEMALLOC_HUGE_METADATA: Remedy = Remedy {
    id: "jemalloc.huge-metadata",
    stops: "copies of jemalloc's own metadata, each page of which is read before it is written",
    worse: "each arena, four a CPU, has metadata of its own, with up to 2 MB that are not used",
    source: "jemalloc's doc/jemalloc.xml.in, opt.metadata_thp, a setting since 5.1; docs/remedies-measured.md: Polars, 3 % more memory",
    touches: Touches::everywhere(
        &[
            Mechanism::FaultCow,
            Mechanism::FaultAnon,
            Mechanism::FaultEntry,
        ],
        "the metadata is faulted in by 2 MB, and not read first and copied then; what else is faulted in stays",
    ),
    consider: |case| {
        if case.of_metadata() < MUCH_METADATA || !case.bears_huge_pages() {
            return None;
        }
        to_try(
            case,
            HUGE_METADATA_SETTING,
            "3 % more memory for Polars, measured",
        )
    },
    ..Remedy::BY_SETTING
};
