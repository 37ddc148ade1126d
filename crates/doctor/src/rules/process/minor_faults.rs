//! PROC-MINFLT: the process still takes page faults.

use super::common::unseen;
use crate::finding::{Read, Severity};
use crate::fix::Fix;
use crate::look::Look;
use crate::process::Process;
use crate::rule::{Check, Checked, Rule};

const COUNTER: &str = "process.minor_faults";

pub(super) const RULE: Rule = Rule {
    id: "PROC-MINFLT",
    title: "page faults while it works",
    severity: Severity::High,
    why: "The first touch of a page enters the kernel, takes locks of the address space, and waits until a page \
          is found and filled with zeros.",
    risk: "Memory that is touched at the start is taken whether it is used or not, and the start takes longer.",
    source: "rigtorp.se/virtual-memory; johnnysswlab.com; man proc_pid_stat(5), minflt",
    causes: &[],
    check: Check::Process(check),
};

fn check(look: &Look<'_>, process: &Process) -> Checked {
    let Some(grown) = look.evidence().grown(COUNTER) else {
        return Checked::unknown(unseen(look))
            .read([Read::new(process.path("stat"), "(seen once)")]);
    };
    // of all of its threads: /proc/PID/stat has no other, and the evidence keeps none by thread
    let checked = match grown {
        0 => Checked::ok("no page fault in any thread"),
        n => Checked::hazard(format!("{n} page faults in all of its threads"))
            .fix(Fix::Advice(
                "program: map with MAP_POPULATE, or touch memory by madvise(MADV_POPULATE_WRITE) (Linux 5.14), \
                 before the work starts"
                    .to_owned(),
            ))
            .fix(Fix::Advice(
                "program: mlockall(MCL_CURRENT | MCL_FUTURE), which also touches all that is mapped later"
                    .to_owned(),
            ))
            .fix(Fix::Directive("LimitMEMLOCK=infinity".to_owned()))
            .note("an allocator that gives memory back makes page faults again: see ALLOC-*"),
    };
    checked
        .read([Read::new(
            process.path("stat"),
            format!("+{grown} minor faults"),
        )])
        .grows(&[COUNTER])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Status;
    use crate::rules::fixture::{ask, ask_with, assert_hazard, grown};

    /// Check that faults that were seen are a hazard and harm, none seen is fine, and one look tells nothing.
    #[test]
    fn faults_are_a_hazard() {
        let found = ask_with(&RULE, &[], &grown(COUNTER, 9));
        assert_hazard(
            &found,
            "",
            "program: map with MAP_POPULATE, or touch memory by madvise(MADV_POPULATE_WRITE) (Linux 5.14), before \
             the work starts\n\
             program: mlockall(MCL_CURRENT | MCL_FUTURE), which also touches all that is mapped later\n\
             systemd service: LimitMEMLOCK=infinity",
        );
        assert_eq!(found.harm.unwrap().count, 9);
        assert_eq!(ask_with(&RULE, &[], &grown(COUNTER, 0)).status, Status::Ok);
        assert_eq!(ask(&RULE, &[]).said, "nobody looked twice: use --duration");
        let ended = ask_with(&RULE, &[], &grown("pgfault", 1));
        assert_eq!(ended.status, Status::Unknown);
        assert_eq!(ended.said, "it ended while it was watched");
    }
}
