//! SYS-KSM-RESIDUE: merging was stopped, and what it merged stays so.

use crate::finding::Severity;
use crate::fix::Fix;
use crate::look::{Look, Value};
use crate::rule::{Check, Checked, Rule};

const RUN: &str = "/sys/kernel/mm/ksm/run";
/// Merged pages, their other users, and those that became the zero page (from 6.6).
const MERGED: [&str; 3] = [
    "/sys/kernel/mm/ksm/pages_shared",
    "/sys/kernel/mm/ksm/pages_sharing",
    "/sys/kernel/mm/ksm/ksm_zero_pages",
];

pub(super) const RULE: Rule = Rule {
    id: "SYS-KSM-RESIDUE",
    title: "pages stay merged after same-page merging was stopped",
    severity: Severity::Medium,
    why: "0 stops ksmd and leaves what it merged: the next write to each such page is a fault that copies it, \
          with a shootdown.",
    risk: "To take pages apart needs memory for each of them, at once.",
    source: "kernel Documentation/admin-guide/mm/ksm.rst, run",
    // the copies are made in the fault of the writer: their cause is cow, and most of that is another's
    causes: &[],
    check: Check::System(check),
};

fn check(look: &Look<'_>) -> Checked {
    let (run, read) = look.read(RUN);
    let counts = MERGED.map(|path| look.read(path));
    let merged = counts.iter().filter_map(|(value, _)| value.number());
    // a merged page with one user left is still write-protected, so any of the counts will do
    let most = merged.max();
    let unread = counts.iter().any(|(value, _)| match value {
        Value::Text(_) => value.number().is_none(),
        Value::Refused(_) => true,
        Value::Absent => false,
    });
    let checked = match (run.number(), &run) {
        (Some(0), _) => match most {
            Some(n) if n > 0 => Checked::hazard(format!("stopped, with {n} pages still merged"))
                .fix(Fix::write(RUN, "2")),
            _ if unread => Checked::unknown("how many pages are merged can't be read"),
            None => Checked::unknown("this kernel does not say how many pages are merged"),
            Some(_) => Checked::ok("stopped, and nothing is merged"),
        },
        (Some(1), _) => Checked::ok("merging runs, which SYS-KSM speaks of"),
        (Some(2), _) => Checked::ok("stopped, and merged pages are taken apart"),
        (None, Value::Absent) => Checked::ok("this kernel has no same-page merging"),
        _ => Checked::unknown("the setting can't be read"),
    };
    let reads = counts.into_iter().map(|(_, read)| read);
    checked.read([read]).read(reads).grows(&["cow_ksm"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Status;
    use crate::rules::fixture::{ask, assert_hazard, status};

    /// Check that merged pages of a stopped ksmd are a hazard, whichever count tells, and none are fine.
    #[test]
    fn what_stays_is_a_hazard() {
        assert_hazard(
            &ask(&RULE, &[(RUN, "0"), (MERGED[0], "3"), (MERGED[1], "127")]),
            "echo 2 > /sys/kernel/mm/ksm/run",
            "tmpfiles.d: w /sys/kernel/mm/ksm/run - - - - 2",
        );
        let alone = [(RUN, "0"), (MERGED[0], "1"), (MERGED[1], "0")];
        assert_eq!(status(&RULE, &alone), Status::Hazard);
        let none = [(RUN, "0"), (MERGED[0], "0"), (MERGED[1], "0")];
        assert_eq!(status(&RULE, &none), Status::Ok);
    }

    /// Check that a ksmd that runs is another rule's, and what can't be read is unknown.
    #[test]
    fn the_rest_is_none() {
        assert_eq!(status(&RULE, &[(RUN, "1"), (MERGED[0], "3")]), Status::Ok);
        assert_eq!(status(&RULE, &[(RUN, "2"), (MERGED[0], "3")]), Status::Ok);
        assert_eq!(status(&RULE, &[]), Status::Ok);
        assert_eq!(status(&RULE, &[(RUN, "x")]), Status::Unknown);
        assert_eq!(status(&RULE, &[(RUN, "0")]), Status::Unknown);
        assert_eq!(
            status(&RULE, &[(RUN, "0"), (MERGED[0], "x")]),
            Status::Unknown
        );
    }
}
