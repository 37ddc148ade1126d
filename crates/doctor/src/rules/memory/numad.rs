//! SYS-NUMAD: a daemon moves programs between nodes.

use quell_event::Cause;

use crate::finding::{Read, Severity};
use crate::fix::Fix;
use crate::look::Look;
use crate::rule::{Check, Checked, Rule};

const NAME: &str = "numad";

pub(super) const RULE: Rule = Rule {
    id: "SYS-NUMAD",
    title: "numad moves programs between nodes",
    severity: Severity::High,
    why: "It has the kernel move the memory of running programs to other nodes: each page is unmapped, a \
          shootdown, and who touches it meanwhile waits.",
    risk: "Programs stay where they were started: bind them to nodes.",
    source: "numad(8); rigtorp.se/virtual-memory",
    causes: &[Cause::MigrateMove],
    check: Check::System(check),
};

fn check(look: &Look<'_>) -> Checked {
    let checked = if look.runs(NAME) {
        return Checked::hazard("numad runs")
            .fix(Fix::Mask("numad.service"))
            .read([Read::new("/proc/*/comm", NAME)]);
    } else if look.sees_all() {
        Checked::ok("numad does not run")
    } else {
        Checked::unknown("not all processes of the machine can be seen from here")
    };
    checked.read([Read::new("/proc/*/comm", "no numad")])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Status;
    use crate::rules::fixture::{ask, assert_hazard, status};

    const KTHREADD: &str = "/proc/2/comm";

    /// Check that a running numad is a hazard, and that none is claimed only where all can be seen.
    #[test]
    fn running_is_a_hazard() {
        let all = (KTHREADD, "kthreadd");
        assert_hazard(
            &ask(&RULE, &[all, ("/proc/9/comm", "numad")]),
            "systemctl mask --now numad.service",
            "systemctl mask numad.service",
        );
        assert_eq!(status(&RULE, &[("/proc/9/comm", "numad")]), Status::Hazard);
        assert_eq!(status(&RULE, &[all]), Status::Ok);
        assert_eq!(status(&RULE, &[(KTHREADD, "bash")]), Status::Unknown);
    }
}
