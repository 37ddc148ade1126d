//! Go: collect less often.

use super::{Case, Remedy, Verdict, one};
use crate::Kind;

/// Lets the heap grow to five times what lives before it is collected.
pub(super) struct Gogc;

const PERCENT: u64 = 400;

impl Remedy for Gogc {
    fn id(&self) -> &'static str {
        "go.gogc"
    }

    fn kind(&self) -> Kind {
        Kind::GoRuntime
    }

    fn stops(&self) -> &'static str {
        "the scavenger's madvise(MADV_DONTNEED), of which each collection makes new work"
    }

    fn worse(&self) -> &'static str {
        "GODEBUG=madvdontneed=0: 9,495 shootdowns became 14,805, so it is never set"
    }

    fn source(&self) -> &'static str {
        "docs/remedies.md: runtimes, measured on Linux 6.18"
    }

    fn consider(&self, case: &Case<'_>) -> Verdict {
        match (case.env)("GOGC") {
            Some(set) if set == "off" => return Verdict::Refuse("GOGC is off already".to_owned()),
            Some(set) if set.parse().is_ok_and(|n: u64| n >= PERCENT) => {
                return Verdict::Refuse(format!("GOGC={set} is set already"));
            }
            _ => {}
        }
        Verdict::Set {
            sets: one("GOGC", PERCENT.to_string()),
            stops: 0.9,
            cost: "the heap may grow to 5 times what lives, instead of twice".to_owned(),
        }
    }
}
