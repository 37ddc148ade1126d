//! PROC-MLOCK: memory of the process is not locked.

use quell_event::Cause;

use crate::finding::Severity;
use crate::fix::Fix;
use crate::look::Look;
use crate::process::Process;
use crate::rule::{Check, Checked, Rule};

pub(super) const RULE: Rule = Rule {
    id: "PROC-MLOCK",
    title: "memory that is not locked",
    severity: Severity::High,
    why: "Pages that are not locked may be taken by reclaim, with a shootdown, and the next touch is a page \
          fault that may wait for a disk.",
    risk: "Locked memory is taken from everybody else, and a program that locks more than there is gets killed. \
           Locked pages may still be moved: see SYS-COMPACT-MLOCK.",
    source: "rigtorp.se/virtual-memory; johnnysswlab.com; man mlock(2)",
    causes: &[Cause::Reclaim],
    check: Check::Process(check),
};

/// What can't be locked: pages of the kernel that every process maps, such as `[vdso]` (mm/mlock.c, `VM_SPECIAL`).
const SLACK: u64 = 64 << 10;

fn check(_: &Look<'_>, process: &Process) -> Checked {
    let (locked, locked_read) = process.status_bytes("VmLck");
    let (resident, resident_read) = process.status_bytes("VmRSS");
    // VmLck is the size of locked mappings, touched or not, so that a large one hides others that are not
    // locked. Locked and Pss of smaps_rollup count the same pages (fs/proc/task_mmu.c, smaps_page_accumulate)
    let (shares, shares_read) = process.rollup("Pss");
    let (locked_shares, locked_shares_read) = process.rollup("Locked");
    let loose = match (locked, resident, shares.zip(locked_shares)) {
        (Some(0), Some(resident), _) => Some(resident),
        (_, _, Some((all, locked))) => Some(all.saturating_sub(locked)),
        (Some(locked), Some(resident), None) => Some(resident.saturating_sub(locked)),
        _ => None,
    };
    let checked = match loose {
        Some(bytes) if bytes > SLACK => {
            Checked::hazard(format!(
                "{} kB of it are resident and not locked",
                bytes >> 10
            ))
            .fix(Fix::Advice(
                "program: mlockall(MCL_CURRENT | MCL_FUTURE) at the start".to_owned(),
            ))
            // CAP_IPC_LOCK would do as well, and either is enough
            .fix(Fix::Directive("LimitMEMLOCK=infinity".to_owned()))
        }
        Some(_) => Checked::ok("what is resident is locked"),
        None => Checked::unknown("what is locked can't be read"),
    };
    let read = [locked_read, resident_read, shares_read, locked_shares_read];
    checked.read(read).grows(&["process.major_faults"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Status;
    use crate::rules::fixture::{ask, assert_hazard, status};

    fn files<'a>(status: &'a str, rollup: &'a str) -> [(&'static str, &'a str); 2] {
        [("PID/status", status), ("PID/smaps_rollup", rollup)]
    }

    /// Check that nothing locked is a hazard with both fixes, without a look at smaps.
    #[test]
    fn nothing_locked_is_a_hazard() {
        let status = "VmLck:\t       0 kB\nVmRSS:\t    4096 kB";
        let found = ask(&RULE, &[("PID/status", status)]);
        assert_hazard(
            &found,
            "",
            "program: mlockall(MCL_CURRENT | MCL_FUTURE) at the start\n\
             systemd service: LimitMEMLOCK=infinity",
        );
        assert_eq!(found.said, "4096 kB of it are resident and not locked");
    }

    /// Check that all locked is fine, also where the kernel's pages are left, and that a large mapping that is
    /// locked and not touched does not hide what is not locked.
    #[test]
    fn what_is_touched_counts() {
        let all = "VmLck:\t    8192 kB\nVmRSS:\t    4096 kB";
        let pss = "Pss:\t 4000 kB\nLocked:\t 3996 kB";
        assert_eq!(status(&RULE, &files(all, pss)), Status::Ok);
        assert_eq!(status(&RULE, &[("PID/status", all)]), Status::Ok);
        let some = "Pss:\t 4000 kB\nLocked:\t 1000 kB";
        assert_eq!(
            ask(&RULE, &files(all, some)).said,
            "3000 kB of it are resident and not locked"
        );
        let part = "VmLck:\t    1024 kB\nVmRSS:\t    4096 kB";
        assert_eq!(status(&RULE, &[("PID/status", part)]), Status::Hazard);
        assert_eq!(status(&RULE, &[]), Status::Unknown);
        assert_eq!(status(&RULE, &[("PID/status", "garbage")]), Status::Unknown);
    }
}
