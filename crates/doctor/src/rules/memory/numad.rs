//! SYS-NUMAD: a daemon moves programs between nodes.

use crate::rules::prelude::*;

const NUMAD_COMM: &str = "numad";

pub(super) const SYS_NUMAD: AuditRule = AuditRule {
    id: "SYS-NUMAD",
    title: "numad moves programs between nodes",
    severity: Severity::High,
    why: "It has the kernel move the memory of running programs to other nodes: each page is unmapped, a \
          shootdown, and who touches it meanwhile waits.",
    risk: "Programs stay where they were started: bind them to nodes.",
    source: "numad(8); rigtorp.se/virtual-memory",
    causes: &[Cause::MigrateMove],
    check: RuleCheck::System(check_sys_numad),
};

fn check_sys_numad(look: &SystemView<'_>) -> CheckResult {
    let checked = if look.is_running(NUMAD_COMM) {
        return CheckResult::hazard("numad runs")
            .with_fix(Fix::Mask("numad.service"))
            .with_reads([FileReading::new("/proc/*/comm", NUMAD_COMM)]);
    } else if look.sees_all_processes() {
        CheckResult::ok("numad does not run")
    } else {
        CheckResult::unknown("not all processes of the machine can be seen from here")
    };
    checked.with_reads([FileReading::new("/proc/*/comm", "no numad")])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::FindingStatus;
    use crate::rules::fixture::{ask_rule_on, assert_hazard, status_on};

    const KTHREADD: &str = "/proc/2/comm";

    /// Check that a running numad is a hazard, and that none is claimed only where all can be seen.
    #[test]
    fn running_is_a_hazard() {
        let all = (KTHREADD, "kthreadd");
        assert_hazard(
            &ask_rule_on(&SYS_NUMAD, &[all, ("/proc/9/comm", "numad")]),
            "systemctl mask --now numad.service",
            "systemctl mask numad.service",
        );
        assert_eq!(
            status_on(&SYS_NUMAD, &[("/proc/9/comm", "numad")]),
            FindingStatus::Hazard
        );
        assert_eq!(status_on(&SYS_NUMAD, &[all]), FindingStatus::Ok);
        assert_eq!(
            status_on(&SYS_NUMAD, &[(KTHREADD, "bash")]),
            FindingStatus::Unknown
        );
    }
}
