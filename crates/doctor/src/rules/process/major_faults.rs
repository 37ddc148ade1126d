//! PROC-MAJFLT: page faults of the process wait for a disk.

use super::common::unseen;
use crate::finding::{Read, Severity};
use crate::fix::Fix;
use crate::look::Look;
use crate::process::Process;
use crate::rule::{Check, Checked, Rule};

const COUNTER: &str = "process.major_faults";

pub(super) const RULE: Rule = Rule {
    id: "PROC-MAJFLT",
    title: "page faults that wait for a disk",
    severity: Severity::Critical,
    why: "A page that is not in memory, because it was swapped out or its file was dropped from the cache, is \
          read from the disk while the thread that touched it waits.",
    risk: "Locked memory is taken from everybody else, and a program that locks more than there is gets killed.",
    source: "rigtorp.se/virtual-memory; man proc_pid_stat(5), majflt",
    causes: &[],
    check: Check::Process(check),
};

fn check(look: &Look<'_>, process: &Process) -> Checked {
    let (swapped, swap_read) = process.status_bytes("VmSwap");
    let grown = look.evidence().grown(COUNTER);
    let shown = grown.map_or("(seen once)".to_owned(), |n| format!("+{n} major faults"));
    let checked = match (grown, swapped) {
        (Some(n), _) if n > 0 => hazard(format!("{n} page faults waited for a disk")),
        // whoever looks: these pages are gone, and the next touch waits
        (_, Some(bytes)) if bytes > 0 => hazard(format!("{} kB of it are in swap", bytes / 1024)),
        (None, _) => Checked::unknown(unseen(look)),
        (Some(_), None) => Checked::unknown("how much of it is in swap can't be read"),
        (Some(_), Some(_)) => Checked::ok("no page fault waited for a disk"),
    };
    checked
        .read([Read::new(process.path("stat"), shown), swap_read])
        .grows(&[COUNTER])
}

fn hazard(said: String) -> Checked {
    Checked::hazard(said)
        .fix(Fix::Advice(
            "program: mlockall(MCL_CURRENT | MCL_FUTURE) at the start".to_owned(),
        ))
        .fix(Fix::Directive("LimitMEMLOCK=infinity".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Status;
    use crate::rules::fixture::{ask, ask_with, assert_hazard, grown};

    /// Check that faults that were seen are a hazard and harm, and that none seen is fine.
    #[test]
    fn faults_are_a_hazard() {
        let files = [("PID/status", "VmSwap:\t       0 kB")];
        let found = ask_with(&RULE, &files, &grown(COUNTER, 3));
        assert_hazard(
            &found,
            "",
            "program: mlockall(MCL_CURRENT | MCL_FUTURE) at the start\n\
             systemd service: LimitMEMLOCK=infinity",
        );
        assert_eq!(found.harm.unwrap().count, 3);
        assert_eq!(
            ask_with(&RULE, &files, &grown(COUNTER, 0)).status,
            Status::Ok
        );
        assert_eq!(
            ask_with(&RULE, &[], &grown(COUNTER, 0)).status,
            Status::Unknown
        );
        assert_eq!(ask(&RULE, &files).status, Status::Unknown, "seen once");
    }

    /// Check that memory in swap is a hazard before anybody has waited for it.
    #[test]
    fn swap_is_a_hazard() {
        let found = ask(&RULE, &[("PID/status", "VmSwap:\t      12 kB")]);
        assert_eq!(found.status, Status::Hazard);
        assert_eq!(found.said, "12 kB of it are in swap");
    }
}
