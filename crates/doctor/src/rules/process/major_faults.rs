//! PROC-MAJFLT: page faults of the process wait for a disk.

use crate::rules::prelude::*;

use super::common::why_no_second_reading;

const MAJOR_FAULTS_COUNTER: &str = "process.major_faults";

pub(super) const PROC_MAJFLT: AuditRule = AuditRule {
    id: "PROC-MAJFLT",
    title: "page faults that wait for a disk",
    severity: Severity::Critical,
    why: "A page that is not in memory, because it was swapped out or its file was dropped from the cache, is \
          read from the disk while the thread that touched it waits.",
    risk: "Locked memory is taken from everybody else, and a program that locks more than there is gets killed.",
    source: "rigtorp.se/virtual-memory; man proc_pid_stat(5), majflt",
    causes: &[],
    check: RuleCheck::Process(check_proc_majflt),
};

fn check_proc_majflt(look: &SystemView<'_>, process: &AuditedProcess) -> CheckResult {
    let (swapped, swap_read) = process.status_field_bytes("VmSwap");
    let grown = look.evidence.growth_of(MAJOR_FAULTS_COUNTER);
    let shown = grown.map_or("(seen once)".to_owned(), |n| format!("+{n} major faults"));
    let checked = match (grown, swapped) {
        (Some(n), _) if n > 0 => major_fault_hazard(format!("{n} page faults waited for a disk")),
        // whoever looks: these pages are gone, and the next touch waits
        (_, Some(bytes)) if bytes > 0 => {
            major_fault_hazard(format!("{} kB of it are in swap", bytes / 1024))
        }
        (None, _) => CheckResult::unknown(why_no_second_reading(look)),
        (Some(_), None) => CheckResult::unknown("how much of it is in swap can't be read"),
        (Some(_), Some(_)) => CheckResult::ok("no page fault waited for a disk"),
    };
    checked
        .with_reads([
            FileReading::new(process.proc_path("stat"), shown),
            swap_read,
        ])
        .with_harm_counters(&[MAJOR_FAULTS_COUNTER])
}

fn major_fault_hazard(said: String) -> CheckResult {
    CheckResult::hazard(said)
        .with_advice("program: mlockall(MCL_CURRENT | MCL_FUTURE) at the start")
        .with_fix(Fix::Directive("LimitMEMLOCK=infinity".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::FindingStatus;
    use crate::rules::fixture::{ask_rule_on, ask_rule_with, assert_hazard, evidence_of_growth};

    /// Check that faults that were seen are a hazard and harm, and that none seen is fine.
    #[test]
    fn faults_are_a_hazard() {
        let files = [("PID/status", "VmSwap:\t       0 kB")];
        let found = ask_rule_with(
            &PROC_MAJFLT,
            &files,
            &evidence_of_growth(MAJOR_FAULTS_COUNTER, 3),
        );
        assert_hazard(
            &found,
            "",
            "program: mlockall(MCL_CURRENT | MCL_FUTURE) at the start\n\
             systemd service: LimitMEMLOCK=infinity",
        );
        assert_eq!(found.harm.unwrap().count, 3);
        assert_eq!(
            ask_rule_with(
                &PROC_MAJFLT,
                &files,
                &evidence_of_growth(MAJOR_FAULTS_COUNTER, 0)
            )
            .status,
            FindingStatus::Ok
        );
        assert_eq!(
            ask_rule_with(
                &PROC_MAJFLT,
                &[],
                &evidence_of_growth(MAJOR_FAULTS_COUNTER, 0)
            )
            .status,
            FindingStatus::Unknown
        );
        assert_eq!(
            ask_rule_on(&PROC_MAJFLT, &files).status,
            FindingStatus::Unknown,
            "seen once"
        );
    }

    /// Check that memory in swap is a hazard before anybody has waited for it.
    #[test]
    fn swap_is_a_hazard() {
        let found = ask_rule_on(&PROC_MAJFLT, &[("PID/status", "VmSwap:\t      12 kB")]);
        assert_eq!(found.status, FindingStatus::Hazard);
        assert_eq!(found.said, "12 kB of it are in swap");
    }
}
