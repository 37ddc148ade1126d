//! SYS-BALLOON: the host takes memory back from this machine.

use crate::rules::prelude::*;

use super::common;

/// Pages taken (virtio, VMware), and pages the host has now (any host, from 6.16).
const BALLOON_COUNTERS: [&str; 2] = ["balloon_inflate", "nr_balloon_pages"];

pub(super) const SYS_BALLOON: AuditRule = AuditRule {
    id: "SYS-BALLOON",
    title: "the host takes memory back",
    severity: Severity::Medium,
    why: "To hand pages to the host this machine reclaims and compacts memory of its programs, with shootdowns, \
          and pays again with faults when it needs them.",
    risk: "The host can't lend this machine's memory to others.",
    source: "kernel mm/vmstat.c balloon_inflate; drivers/virtio/virtio_balloon.c",
    causes: &[],
    check: RuleCheck::System(check_sys_balloon),
};

fn check_sys_balloon(look: &SystemView<'_>) -> CheckResult {
    let (inflated, first) = common::read_vmstat(look, BALLOON_COUNTERS[0]);
    let (held, second) = common::read_vmstat(look, BALLOON_COUNTERS[1]);
    let counts = inflated.is_some() || held.is_some();
    let readable = look
        .file("/proc/vmstat")
        .text()
        .is_some_and(|t| t.contains("nr_free_pages "));
    // processors of other kinds don't tell
    let bare = look.cpu_flag("hypervisor") == Some(false);
    let checked = match common::total_growth(look, &BALLOON_COUNTERS) {
        Some(n) if n > 0 => CheckResult::hazard("the host took pages while this machine ran")
            .with_advice(
            "host: give this machine all its memory, with no balloon or one that stays as it is",
        ),
        _ if bare => CheckResult::ok("no host: this is no virtual machine"),
        _ if !readable => CheckResult::unknown("/proc/vmstat can't be read"),
        _ if !counts => CheckResult::ok("this kernel has no balloon"),
        Some(_) => CheckResult::ok("the host took no pages"),
        None => CheckResult::unknown(crate::rules::why_no_growth(look)),
    };
    checked
        .with_reads([first, second])
        .with_harm_counters(&BALLOON_COUNTERS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::FindingStatus;
    use crate::rules::fixture::{ask_rule_with, assert_hazard, evidence_of_growth, status_on};

    const VMSTAT: (&str, &str) = (
        "/proc/vmstat",
        "nr_free_pages 7\nnr_balloon_pages 4\nballoon_inflate 9",
    );
    const GUEST: (&str, &str) = ("/proc/cpuinfo", "flags : pcid hypervisor");

    /// Check that pages that were taken while somebody looked are a hazard with its harm, and none are fine.
    #[test]
    fn growth_is_a_hazard() {
        let found = ask_rule_with(
            &SYS_BALLOON,
            &[VMSTAT, GUEST],
            &evidence_of_growth(BALLOON_COUNTERS[0], 256),
        );
        assert_hazard(
            &found,
            "",
            "host: give this machine all its memory, with no balloon or one that stays as it is",
        );
        assert_eq!(
            found.harm.unwrap().description,
            "balloon_inflate +256 in 1.00 s"
        );
        assert_eq!(
            ask_rule_with(
                &SYS_BALLOON,
                &[VMSTAT, GUEST],
                &evidence_of_growth(BALLOON_COUNTERS[0], 0)
            )
            .status,
            FindingStatus::Ok
        );
    }

    /// Check that nothing is claimed without a second look, but of machines without a host or a balloon.
    #[test]
    fn one_look_tells_nothing() {
        assert_eq!(
            status_on(&SYS_BALLOON, &[VMSTAT, GUEST]),
            FindingStatus::Unknown
        );
        assert_eq!(
            status_on(&SYS_BALLOON, &[VMSTAT, ("/proc/cpuinfo", "flags : pcid")]),
            FindingStatus::Ok
        );
        assert_eq!(
            status_on(&SYS_BALLOON, &[("/proc/vmstat", "nr_free_pages 7"), GUEST]),
            FindingStatus::Ok
        );
        assert_eq!(status_on(&SYS_BALLOON, &[GUEST]), FindingStatus::Unknown);
    }
}
