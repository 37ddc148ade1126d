//! SYS-KSM: pages with the same content are merged.

use crate::rules::prelude::*;

const KSM_RUN_FILE: &str = "/sys/kernel/mm/ksm/run";

pub(super) const SYS_KSM: AuditRule = AuditRule {
    id: "SYS-KSM",
    title: "same-page merging runs",
    severity: Severity::High,
    why: "ksmd write-protects and merges pages of programs that opted in: a shootdown for each, and the next \
          write to a merged page is a fault that copies it.",
    risk: "Virtual machines with the same content take more memory.",
    source: "kernel Documentation/admin-guide/mm/ksm.rst; rigtorp.se/virtual-memory",
    causes: &[Cause::Ksm],
    check: RuleCheck::System(check_sys_ksm),
};

fn check_sys_ksm(look: &SystemView<'_>) -> CheckResult {
    let (value, read) = look.read(KSM_RUN_FILE);
    let checked = match (value.number(), &value) {
        (Some(1), _) => CheckResult::hazard("ksmd merges pages")
            // 0 would stop it and keep what is merged; 2 takes it apart first
            .with_fix(Fix::set_file(KSM_RUN_FILE, "2"))
            .with_fix(Fix::Mask("ksm.service"))
            .with_fix(Fix::Mask("ksmtuned.service")),
        (Some(_), _) => CheckResult::ok("ksmd does not merge"),
        (None, FileValue::Absent) => CheckResult::ok("this kernel has no same-page merging"),
        (None, _) => CheckResult::unknown("the setting can't be read"),
    };
    checked
        .with_reads([read])
        .with_harm_counters(&["ksm.full_scans", "cow_ksm"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::FindingStatus;
    use crate::rules::fixture::{ask_rule_on, status_on};

    /// Check that a running ksmd is a hazard whose fix takes merged pages apart, and that ksmtuned is named.
    #[test]
    fn running_is_a_hazard() {
        let found = ask_rule_on(
            &SYS_KSM,
            &[(KSM_RUN_FILE, "1"), ("/proc/9/comm", "ksmtuned")],
        );
        assert_eq!(found.status, FindingStatus::Hazard);
        assert!(
            found
                .fix_now()
                .starts_with("echo 2 > /sys/kernel/mm/ksm/run")
        );
        assert!(found.notes[0].contains("ksmtuned"), "{:?}", found.notes);
        assert_eq!(
            status_on(&SYS_KSM, &[(KSM_RUN_FILE, "0")]),
            FindingStatus::Ok
        );
        assert_eq!(
            status_on(&SYS_KSM, &[(KSM_RUN_FILE, "2")]),
            FindingStatus::Ok
        );
        assert_eq!(status_on(&SYS_KSM, &[]), FindingStatus::Ok);
    }
}
