//! PROC-UFFD: page faults of the process are handled by a program.

use quell_event::Cause;

use crate::finding::{Read, Severity};
use crate::fix::Fix;
use crate::look::Look;
use crate::process::Process;
use crate::rule::{Check, Checked, Rule};

use super::common::UNREADABLE;

pub(super) const RULE: Rule = Rule {
    id: "PROC-UFFD",
    title: "page faults that a program handles",
    severity: Severity::Medium,
    why: "A fault in memory that is registered with userfaultfd waits until another thread answers it, and \
          write protection through it is a shootdown each time.",
    risk: "Who registered it needs it: live migration, snapshots, or a runtime that moves its memory.",
    source: "kernel Documentation/admin-guide/mm/userfaultfd.rst; man proc_pid_smaps(5), VmFlags",
    causes: &[Cause::Userfaultfd],
    check: Check::Process(check),
};

fn check(_: &Look<'_>, process: &Process) -> Checked {
    let path = format!("{} VmFlags", process.path("smaps"));
    // missing pages, write protection, and minor faults (fs/proc/task_mmu.c, show_smap_vma_flags)
    match process.flagged(&["um", "uw", "ui"]) {
        Some(0) => {
            Checked::ok("none of its memory").read([Read::new(path, "none with um, uw or ui")])
        }
        Some(n) => {
            let protected = process.flagged(&["uw"]).unwrap_or(0);
            Checked::hazard(format!(
                "{n} mappings are registered with userfaultfd, {protected} of them for write protection"
            ))
            .fix(Fix::Advice(
                "program: fill the memory before the work starts and give it up with UFFDIO_UNREGISTER; answer \
                 with large ranges, one call each"
                    .to_owned(),
            ))
            .read([Read::new(path, format!("{n} with um, uw or ui; {protected} with uw"))])
        }
        None => Checked::unknown(UNREADABLE).read([Read::new(path, "(not readable)")]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Status;
    use crate::rules::fixture::{ask, assert_hazard, status};

    /// Check that registered memory is a hazard, that other memory is none, and that unreadable is unknown.
    #[test]
    fn registered_is_a_hazard() {
        let smaps = "VmFlags: rd wr mr mw me ac um \nVmFlags: rd wr uw \nVmFlags: rd wr ";
        let found = ask(&RULE, &[("PID/smaps", smaps)]);
        assert_hazard(
            &found,
            "",
            "program: fill the memory before the work starts and give it up with UFFDIO_UNREGISTER; answer with large \
             ranges, one call each",
        );
        assert!(found.said.starts_with("2 mappings"), "{}", found.said);
        assert!(found.said.contains("1 of them"), "{}", found.said);
        assert_eq!(
            status(&RULE, &[("PID/smaps", "VmFlags: rd wr mg ")]),
            Status::Ok
        );
        assert_eq!(status(&RULE, &[]), Status::Unknown);
    }
}
