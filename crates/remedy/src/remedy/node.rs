//! Node.js: a larger young generation, so that fewer objects are copied and fewer pages are given back and faulted in again.

use super::{HEAP_CALLS, Offer, Remedy, RemedyAnswer, RemedyCase, one_variable};
use crate::{SoftwareKind, Touches};

/// MB. V8's own is 16 on 64 bits. With 16 and 32 the workers took no less CPU time, with 64 0.65 of the time and with 96
/// 0.76 (bench/overhead/workers.js); other programs want other sizes, so two are tried.
const SEMI_SPACE_MB: [u32; 2] = [64, 128];
const SEMI_SPACE_OPTION: &str = "--max-semi-space-size";

/// Whether one of these words sets it, as V8 takes it: with `_` in place of `-`, too.
fn is_set<'w>(mut words: impl Iterator<Item = &'w str>) -> bool {
    words.any(|w| w.replace('_', "-").starts_with(SEMI_SPACE_OPTION))
}

/// Lets each half of the young generation grow further before it is collected.
pub(super) const SEMI_SPACE: Remedy = Remedy {
    id: "node.semi-space",
    stops: "no shootdown for sure: collections of young objects, and the mapping and faulting of their pages",
    worse: "each worker thread has a young generation of its own, of up to three times the size; one program made 165 shootdowns without, and 1,299 with 64 MB",
    source: "docs/remedies-measured.md: two worker threads, measured on Node.js 20.20.2, Linux 6.18; nodejs.org/api/cli.html, --max-semi-space-size",
    touches: Touches::keeping(
        HEAP_CALLS,
        "the young generation is collected less often, and its pages stay meanwhile; the collector's own time is no part of it",
    ),
    consider: consider_semi_space,
    wins_beyond_account: true,
    ..Remedy::BY_SETTING
};

fn consider_semi_space(case: &RemedyCase<'_>) -> Option<RemedyAnswer> {
    case.allocator_of_kind(SoftwareKind::Node)?;
    let theirs = (case.env)("NODE_OPTIONS").unwrap_or_default();
    let command = case.evidence.command.iter().map(String::as_str);
    if is_set(theirs.split_ascii_whitespace()) || is_set(command) {
        return Some(RemedyAnswer::refuse(
            "--max-semi-space-size is set already, in NODE_OPTIONS or on the command line",
        ));
    }
    let offers = SEMI_SPACE_MB.iter().map(|size| Offer {
        sets: one_variable("NODE_OPTIONS", format!("{SEMI_SPACE_OPTION}={size}")),
        untried: true,
        cost: format!(
            "the main thread, and each worker, may have up to {} MB of young objects; 1.6 times the memory was measured with two workers and 64 MB",
            3 * size
        ),
        ..Offer::default()
    });
    Some(RemedyAnswer::Offer(offers.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that the option is known however it is written, and that another one is not taken for it.
    #[test]
    fn set_already() {
        assert!(is_set(["--max_semi_space_size=32"].into_iter()));
        assert!(is_set(["node", "--max-semi-space-size", "32"].into_iter()));
        assert!(!is_set(["node", "--max-old-space-size=512"].into_iter()));
    }
}
