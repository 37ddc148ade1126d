//! SYS-KSM: pages with the same content are merged.

use quell_event::Cause;

use crate::finding::Severity;
use crate::fix::Fix;
use crate::look::{Look, Value};
use crate::rule::{Check, Checked, Rule};

const RUN: &str = "/sys/kernel/mm/ksm/run";

pub(super) const RULE: Rule = Rule {
    id: "SYS-KSM",
    title: "same-page merging runs",
    severity: Severity::High,
    why: "ksmd write-protects and merges pages of programs that opted in: a shootdown for each, and the next \
          write to a merged page is a fault that copies it.",
    risk: "Virtual machines with the same content take more memory.",
    source: "kernel Documentation/admin-guide/mm/ksm.rst; rigtorp.se/virtual-memory",
    causes: &[Cause::Ksm],
    check: Check::System(check),
};

fn check(look: &Look<'_>) -> Checked {
    let (value, read) = look.read(RUN);
    let checked = match (value.number(), &value) {
        (Some(1), _) => Checked::hazard("ksmd merges pages")
            // 0 would stop it and keep what is merged; 2 takes it apart first
            .fix(Fix::write(RUN, "2"))
            .fix(Fix::Mask("ksm.service"))
            .fix(Fix::Mask("ksmtuned.service")),
        (Some(_), _) => Checked::ok("ksmd does not merge"),
        (None, Value::Absent) => Checked::ok("this kernel has no same-page merging"),
        (None, _) => Checked::unknown("the setting can't be read"),
    };
    checked.read([read]).grows(&["ksm.full_scans", "cow_ksm"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Status;
    use crate::rules::fixture::{ask, status};

    /// Check that a running ksmd is a hazard whose fix takes merged pages apart, and that ksmtuned is named.
    #[test]
    fn running_is_a_hazard() {
        let found = ask(&RULE, &[(RUN, "1"), ("/proc/9/comm", "ksmtuned")]);
        assert_eq!(found.status, Status::Hazard);
        assert!(
            found
                .fix_now()
                .starts_with("echo 2 > /sys/kernel/mm/ksm/run")
        );
        assert!(found.notes[0].contains("ksmtuned"), "{:?}", found.notes);
        assert_eq!(status(&RULE, &[(RUN, "0")]), Status::Ok);
        assert_eq!(status(&RULE, &[(RUN, "2")]), Status::Ok);
        assert_eq!(status(&RULE, &[]), Status::Ok);
    }
}
