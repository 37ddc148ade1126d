//! SYS-THP-SHRINK: huge pages that are mostly empty are split.

use quell_event::Cause;

use crate::finding::Severity;
use crate::fix::Fix;
use crate::look::{Look, Value};
use crate::rule::{Check, Checked, Rule};

const SHRINK: &str = "/sys/kernel/mm/transparent_hugepage/shrink_underused";
const MAX_NONE: &str = "/sys/kernel/mm/transparent_hugepage/khugepaged/max_ptes_none";
const PMD_SIZE: &str = "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size";

pub(super) const RULE: Rule = Rule {
    id: "SYS-THP-SHRINK",
    title: "underused huge pages are split",
    severity: Severity::Low,
    why: "When memory runs short the kernel looks for huge pages that are mostly zeros, unmaps and splits them: \
          a shootdown for each.",
    risk: "Zeros inside of huge pages stay allocated.",
    source: "kernel Documentation/admin-guide/mm/transhuge.rst, shrink_underused; mm/huge_memory.c thp_underused",
    causes: &[Cause::ThpSplit],
    check: Check::System(check),
};

fn check(look: &Look<'_>) -> Checked {
    let (shrink, read) = look.read(SHRINK);
    let (max_none, second) = look.read(MAX_NONE);
    let checked = match (shrink.number(), &shrink) {
        (Some(0), _) => Checked::ok("switched off"),
        (Some(1), _) => match max_none.number() {
            // with the default of 511 of 512 no page is underused: the table's condition alone is not enough
            Some(n) if n >= entries(look) - 1 => Checked::ok(format!(
                "on, but with max_ptes_none of {n} no page counts as underused"
            )),
            Some(n) => Checked::hazard(format!(
                "on, for pages of which more than {n} parts are zeros"
            ))
            .fix(Fix::write(SHRINK, "0")),
            None => Checked::unknown("on, but what counts as underused can't be read"),
        },
        (None, Value::Absent) => Checked::ok("this kernel has none (before 6.12)"),
        _ => Checked::unknown("the setting can't be read"),
    };
    checked
        .read([read, second])
        .grows(&["thp_underused_split_page"])
}

/// Small pages in a huge one: entries of 8 bytes fill a page, and each of them maps a page.
fn entries(look: &Look<'_>) -> i64 {
    let size = look.file(PMD_SIZE).number().filter(|&n| n > 0);
    size.map_or(512, |bytes| (bytes / 8).isqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Status;
    use crate::rules::fixture::{ask, assert_hazard, status};

    /// Check that it is a hazard only where some page can count as underused.
    #[test]
    fn splitting_is_a_hazard() {
        assert_hazard(
            &ask(&RULE, &[(SHRINK, "1"), (MAX_NONE, "409")]),
            "echo 0 > /sys/kernel/mm/transparent_hugepage/shrink_underused",
            "tmpfiles.d: w /sys/kernel/mm/transparent_hugepage/shrink_underused - - - - 0",
        );
        let default = [(SHRINK, "1"), (MAX_NONE, "511"), (PMD_SIZE, "2097152")];
        assert_eq!(status(&RULE, &default), Status::Ok);
        // pages of 64 KiB have 8192 of them in 512 MiB
        let arm = [(SHRINK, "1"), (MAX_NONE, "511"), (PMD_SIZE, "536870912")];
        assert_eq!(status(&RULE, &arm), Status::Hazard);
        assert_eq!(
            status(&RULE, &[(SHRINK, "0"), (MAX_NONE, "409")]),
            Status::Ok
        );
    }

    /// Check that older kernels are fine, and what can't be read is unknown.
    #[test]
    fn what_is_missing() {
        assert_eq!(status(&RULE, &[]), Status::Ok);
        assert_eq!(status(&RULE, &[(SHRINK, "1")]), Status::Unknown);
        assert_eq!(
            status(&RULE, &[(SHRINK, "x"), (MAX_NONE, "409")]),
            Status::Unknown
        );
    }
}
