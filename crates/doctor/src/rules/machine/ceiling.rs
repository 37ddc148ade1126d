//! CPU-CEILING: from how many pages on everything is flushed.

use crate::rules::prelude::*;

const CEILING_FILE: &str = "/sys/kernel/debug/x86/tlb_single_page_flush_ceiling";
/// arch/x86/mm/tlb.c.
const DEFAULT_CEILING_PAGES: i64 = 33;

pub(super) const CPU_CEILING: AuditRule = AuditRule {
    id: "CPU-CEILING",
    title: "when a shootdown flushes everything",
    severity: Severity::Info,
    why: "Up to this many pages a shootdown drops one by one, which keeps the victim in the interrupt for \
          longer; above it the victim loses every translation of the process.",
    risk: "None: it is the kernel's own choice.",
    source: "kernel Documentation/arch/x86/tlb.rst; arch/x86/mm/tlb.c, tlb_single_page_flush_ceiling",
    causes: &[],
    check: RuleCheck::System(check_cpu_ceiling),
};

fn check_cpu_ceiling(look: &SystemView<'_>) -> CheckResult {
    let (value, read) = look.read(CEILING_FILE);
    let changed = |n: i64| {
        CheckResult::hazard(format!(
            "{n} pages, and the kernel's own choice is {DEFAULT_CEILING_PAGES}"
        ))
        .with_fix(Fix::set_file(
            CEILING_FILE,
            DEFAULT_CEILING_PAGES.to_string(),
        ))
    };
    let checked = match (value.number(), &value) {
        (Some(DEFAULT_CEILING_PAGES), _) => CheckResult::ok("33 pages, the kernel's own choice"),
        // counted with CONFIG_DEBUG_TLBFLUSH
        (Some(n), _) if n < DEFAULT_CEILING_PAGES => {
            changed(n).with_harm_counters(&["nr_tlb_local_flush_all"])
        }
        (Some(n), _) => changed(n).with_harm_counters(&["nr_tlb_local_flush_one"]),
        (None, FileValue::Absent) => CheckResult::ok("this kernel has no such limit"),
        // read as root, it would be seen
        (None, FileValue::Refused(_)) if is_debugfs_mounted(look) == Some(false) => {
            CheckResult::unknown("debugfs is not mounted: mount -t debugfs none /sys/kernel/debug")
        }
        (None, FileValue::Refused(why)) => CheckResult::unknown(format!(
            "debugfs can't be read: {why} (root, and no lockdown)"
        )),
        (None, FileValue::Text(_)) => CheckResult::unknown("the limit is no number"),
    };
    checked.with_reads([read])
}

/// Whether debugfs is; `None` if that can't be read.
fn is_debugfs_mounted(look: &SystemView<'_>) -> Option<bool> {
    let mounts = look.file("/proc/self/mounts");
    let mut lines = mounts.text()?.lines();
    Some(lines.any(|l| l.split_ascii_whitespace().nth(1) == Some("/sys/kernel/debug")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::FindingStatus;
    use crate::rules::fixture::{ask_rule_on, assert_hazard, status_on};

    /// Check that another value is reported with the way back, and that debugfs out of sight is unknown.
    #[test]
    fn another_value_is_reported() {
        assert_hazard(
            &ask_rule_on(&CPU_CEILING, &[(CEILING_FILE, "1")]),
            "echo 33 > /sys/kernel/debug/x86/tlb_single_page_flush_ceiling",
            "tmpfiles.d: w /sys/kernel/debug/x86/tlb_single_page_flush_ceiling - - - - 33",
        );
        assert_eq!(
            status_on(&CPU_CEILING, &[(CEILING_FILE, "512")]),
            FindingStatus::Hazard
        );
        assert_eq!(
            status_on(&CPU_CEILING, &[(CEILING_FILE, "33")]),
            FindingStatus::Ok
        );
        assert_eq!(
            status_on(&CPU_CEILING, &[(CEILING_FILE, "x")]),
            FindingStatus::Unknown
        );
        assert_eq!(
            status_on(&CPU_CEILING, &[]),
            FindingStatus::Unknown,
            "debugfs is not mounted"
        );
        let bare = ask_rule_on(
            &CPU_CEILING,
            &[("/proc/self/mounts", "proc /proc proc rw 0 0")],
        );
        assert!(bare.said.contains("mount -t debugfs"), "{}", bare.said);
        let refused = [("/proc/self/mounts", "none /sys/kernel/debug debugfs rw 0 0")];
        assert!(ask_rule_on(&CPU_CEILING, &refused).said.contains("root"));
        let mounted = [("/sys/kernel/debug/sched/features", "")];
        assert_eq!(status_on(&CPU_CEILING, &mounted), FindingStatus::Ok);
    }
}
