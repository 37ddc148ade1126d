//! PROC-MLOCK: memory of the process is not locked.

use crate::rules::prelude::*;

pub(super) const PROC_MLOCK: AuditRule = AuditRule {
    id: "PROC-MLOCK",
    title: "memory that is not locked",
    severity: Severity::High,
    why: "Pages that are not locked may be taken by reclaim, with a shootdown, and the next touch is a page \
          fault that may wait for a disk.",
    risk: "Locked memory is taken from everybody else, and a program that locks more than there is gets killed. \
           Locked pages may still be moved: see SYS-COMPACT-MLOCK.",
    source: "rigtorp.se/virtual-memory; johnnysswlab.com; man mlock(2)",
    causes: &[Cause::Reclaim],
    check: RuleCheck::Process(check_proc_mlock),
};

/// The size that can't be locked: pages of the kernel that every process maps, such as `[vdso]` (mm/mlock.c, `VM_SPECIAL`).
const MAX_UNLOCKABLE_BYTES: u64 = 64 << 10;

fn check_proc_mlock(_: &SystemView<'_>, process: &AuditedProcess) -> CheckResult {
    let (locked, locked_read) = process.status_field_bytes("VmLck");
    let (resident, resident_read) = process.status_field_bytes("VmRSS");
    // VmLck is the size of locked mappings, touched or not, so that a large one hides others that are not
    // locked. Locked and Pss of smaps_rollup count the same pages (fs/proc/task_mmu.c, smaps_page_accumulate)
    let (shares, shares_read) = process.rollup_bytes("Pss");
    let (locked_shares, locked_shares_read) = process.rollup_bytes("Locked");
    let loose = match (locked, resident, shares.zip(locked_shares)) {
        (Some(0), Some(resident), _) => Some(resident),
        (_, _, Some((all, locked))) => Some(all.saturating_sub(locked)),
        (Some(locked), Some(resident), None) => Some(resident.saturating_sub(locked)),
        _ => None,
    };
    let checked = match loose {
        Some(bytes) if bytes > MAX_UNLOCKABLE_BYTES => {
            CheckResult::hazard(format!(
                "{} kB of it are resident and not locked",
                bytes >> 10
            ))
            .with_advice("program: mlockall(MCL_CURRENT | MCL_FUTURE) at the start")
            // CAP_IPC_LOCK would do as well, and either is enough
            .with_fix(Fix::Directive("LimitMEMLOCK=infinity".to_owned()))
        }
        Some(_) => CheckResult::ok("what is resident is locked"),
        None => CheckResult::unknown("what is locked can't be read"),
    };
    let read = [locked_read, resident_read, shares_read, locked_shares_read];
    checked
        .with_reads(read)
        .with_harm_counters(&["process.major_faults"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::FindingStatus;
    use crate::rules::fixture::{ask_rule_on, assert_hazard, status_on};

    fn files<'a>(status: &'a str, rollup: &'a str) -> [(&'static str, &'a str); 2] {
        [("PID/status", status), ("PID/smaps_rollup", rollup)]
    }

    /// Check that nothing locked is a hazard with both fixes, without a look at smaps.
    #[test]
    fn nothing_locked_is_a_hazard() {
        let status = "VmLck:\t       0 kB\nVmRSS:\t    4096 kB";
        let found = ask_rule_on(&PROC_MLOCK, &[("PID/status", status)]);
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
        assert_eq!(status_on(&PROC_MLOCK, &files(all, pss)), FindingStatus::Ok);
        assert_eq!(
            status_on(&PROC_MLOCK, &[("PID/status", all)]),
            FindingStatus::Ok
        );
        let some = "Pss:\t 4000 kB\nLocked:\t 1000 kB";
        assert_eq!(
            ask_rule_on(&PROC_MLOCK, &files(all, some)).said,
            "3000 kB of it are resident and not locked"
        );
        let part = "VmLck:\t    1024 kB\nVmRSS:\t    4096 kB";
        assert_eq!(
            status_on(&PROC_MLOCK, &[("PID/status", part)]),
            FindingStatus::Hazard
        );
        assert_eq!(status_on(&PROC_MLOCK, &[]), FindingStatus::Unknown);
        assert_eq!(
            status_on(&PROC_MLOCK, &[("PID/status", "garbage")]),
            FindingStatus::Unknown
        );
    }
}
