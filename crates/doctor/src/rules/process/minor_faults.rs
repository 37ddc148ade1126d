//! PROC-MINFLT: the process still takes page faults.

use crate::rules::prelude::*;

use super::common::why_no_second_reading;

const MINOR_FAULTS_COUNTER: &str = "process.minor_faults";

pub(super) const PROC_MINFLT: AuditRule = AuditRule {
    id: "PROC-MINFLT",
    title: "page faults while it works",
    severity: Severity::High,
    why: "The first touch of a page enters the kernel, takes locks of the address space, and waits until a page \
          is found and filled with zeros.",
    risk: "Memory that is touched at the start is taken whether it is used or not, and the start takes longer.",
    source: "rigtorp.se/virtual-memory; johnnysswlab.com; man proc_pid_stat(5), minflt",
    causes: &[],
    check: RuleCheck::Process(check_proc_minflt),
};

fn check_proc_minflt(look: &SystemView<'_>, process: &AuditedProcess) -> CheckResult {
    let Some(grown) = look.evidence.growth_of(MINOR_FAULTS_COUNTER) else {
        return CheckResult::unknown(why_no_second_reading(look))
            .with_reads([FileReading::new(process.proc_path("stat"), "(seen once)")]);
    };
    // of all of its threads: /proc/PID/stat has no other, and the evidence keeps none by thread
    let checked = match grown {
        0 => CheckResult::ok("no page fault in any thread"),
        n => CheckResult::hazard(format!("{n} page faults in all of its threads"))
            .with_advice(
                "program: map with MAP_POPULATE, or touch memory by madvise(MADV_POPULATE_WRITE) (Linux 5.14), \
                 before the work starts",
            )
            .with_advice(
                "program: mlockall(MCL_CURRENT | MCL_FUTURE), which also touches all that is mapped later",
            )
            .with_fix(Fix::Directive("LimitMEMLOCK=infinity".to_owned()))
            .with_note("an allocator that gives memory back makes page faults again: see ALLOC-*"),
    };
    checked
        .with_reads([FileReading::new(
            process.proc_path("stat"),
            format!("+{grown} minor faults"),
        )])
        .with_harm_counters(&[MINOR_FAULTS_COUNTER])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::FindingStatus;
    use crate::rules::fixture::{ask_rule_on, ask_rule_with, assert_hazard, evidence_of_growth};

    /// Check that faults that were seen are a hazard and harm, none seen is fine, and one look tells nothing.
    #[test]
    fn faults_are_a_hazard() {
        let found = ask_rule_with(
            &PROC_MINFLT,
            &[],
            &evidence_of_growth(MINOR_FAULTS_COUNTER, 9),
        );
        assert_hazard(
            &found,
            "",
            "program: map with MAP_POPULATE, or touch memory by madvise(MADV_POPULATE_WRITE) (Linux 5.14), before \
             the work starts\n\
             program: mlockall(MCL_CURRENT | MCL_FUTURE), which also touches all that is mapped later\n\
             systemd service: LimitMEMLOCK=infinity",
        );
        assert_eq!(found.harm.unwrap().count, 9);
        assert_eq!(
            ask_rule_with(
                &PROC_MINFLT,
                &[],
                &evidence_of_growth(MINOR_FAULTS_COUNTER, 0)
            )
            .status,
            FindingStatus::Ok
        );
        assert_eq!(
            ask_rule_on(&PROC_MINFLT, &[]).said,
            "nobody looked twice: use --duration"
        );
        let ended = ask_rule_with(&PROC_MINFLT, &[], &evidence_of_growth("pgfault", 1));
        assert_eq!(ended.status, FindingStatus::Unknown);
        assert_eq!(ended.said, "it ended while it was watched");
    }
}
