//! PROC-UFFD: page faults of the process are handled by a program.

use crate::rules::prelude::*;

use super::common::MAPPINGS_UNREADABLE;

pub(super) const PROC_UFFD: AuditRule = AuditRule {
    id: "PROC-UFFD",
    title: "page faults that a program handles",
    severity: Severity::Medium,
    why: "A fault in memory that is registered with userfaultfd waits until another thread answers it, and \
          write protection through it is a shootdown each time.",
    risk: "Who registered it needs it: live migration, snapshots, or a runtime that moves its memory.",
    source: "kernel Documentation/admin-guide/mm/userfaultfd.rst; man proc_pid_smaps(5), VmFlags",
    causes: &[Cause::Userfaultfd],
    check: RuleCheck::Process(check_proc_uffd),
};

fn check_proc_uffd(_: &SystemView<'_>, process: &AuditedProcess) -> CheckResult {
    let path = format!("{} VmFlags", process.proc_path("smaps"));
    // missing pages, write protection, and minor faults (fs/proc/task_mmu.c, show_smap_vma_flags)
    match process.count_flagged(&["um", "uw", "ui"]) {
        Some(0) => CheckResult::ok("none of its memory")
            .with_reads([FileReading::new(path, "none with um, uw or ui")]),
        Some(n) => {
            let protected = process.count_flagged(&["uw"]).unwrap_or(0);
            CheckResult::hazard(format!(
                "{n} mappings are registered with userfaultfd, {protected} of them for write protection"
            ))
            .with_advice(
                "program: fill the memory before the work starts and give it up with UFFDIO_UNREGISTER; answer \
                 with large ranges, one call each",
            )
            .with_reads([FileReading::new(path, format!("{n} with um, uw or ui; {protected} with uw"))])
        }
        None => CheckResult::unknown(MAPPINGS_UNREADABLE)
            .with_reads([FileReading::new(path, "(not readable)")]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::FindingStatus;
    use crate::rules::fixture::{ask_rule_on, assert_hazard, status_on};

    /// Check that registered memory is a hazard, that other memory is none, and that unreadable is unknown.
    #[test]
    fn registered_is_a_hazard() {
        let smaps = "VmFlags: rd wr mr mw me ac um \nVmFlags: rd wr uw \nVmFlags: rd wr ";
        let found = ask_rule_on(&PROC_UFFD, &[("PID/smaps", smaps)]);
        assert_hazard(
            &found,
            "",
            "program: fill the memory before the work starts and give it up with UFFDIO_UNREGISTER; answer with large \
             ranges, one call each",
        );
        assert!(found.said.starts_with("2 mappings"), "{}", found.said);
        assert!(found.said.contains("1 of them"), "{}", found.said);
        assert_eq!(
            status_on(&PROC_UFFD, &[("PID/smaps", "VmFlags: rd wr mg ")]),
            FindingStatus::Ok
        );
        assert_eq!(status_on(&PROC_UFFD, &[]), FindingStatus::Unknown);
    }
}
