//! CPU-CEILING: from how many pages on everything is flushed.

use crate::finding::Severity;
use crate::fix::Fix;
use crate::look::{Look, Value};
use crate::rule::{Check, Checked, Rule};

const FILE: &str = "/sys/kernel/debug/x86/tlb_single_page_flush_ceiling";
/// arch/x86/mm/tlb.c.
const DEFAULT: i64 = 33;

pub(super) const RULE: Rule = Rule {
    id: "CPU-CEILING",
    title: "when a shootdown flushes everything",
    severity: Severity::Info,
    why: "Up to this many pages a shootdown drops one by one, which keeps the victim in the interrupt for \
          longer; above it the victim loses every translation of the process.",
    risk: "None: it is the kernel's own choice.",
    source: "kernel Documentation/arch/x86/tlb.rst; arch/x86/mm/tlb.c, tlb_single_page_flush_ceiling",
    causes: &[],
    check: Check::System(check),
};

fn check(look: &Look<'_>) -> Checked {
    let (value, read) = look.read(FILE);
    let changed = |n: i64| {
        Checked::hazard(format!(
            "{n} pages, and the kernel's own choice is {DEFAULT}"
        ))
        .fix(Fix::write(FILE, DEFAULT.to_string()))
    };
    let checked = match (value.number(), &value) {
        (Some(DEFAULT), _) => Checked::ok("33 pages, the kernel's own choice"),
        // counted with CONFIG_DEBUG_TLBFLUSH
        (Some(n), _) if n < DEFAULT => changed(n).grows(&["nr_tlb_local_flush_all"]),
        (Some(n), _) => changed(n).grows(&["nr_tlb_local_flush_one"]),
        (None, Value::Absent) => Checked::ok("this kernel has no such limit"),
        // read as root, it would be seen
        (None, Value::Refused(_)) if mounted(look) == Some(false) => {
            Checked::unknown("debugfs is not mounted: mount -t debugfs none /sys/kernel/debug")
        }
        (None, Value::Refused(why)) => Checked::unknown(format!(
            "debugfs can't be read: {why} (root, and no lockdown)"
        )),
        (None, Value::Text(_)) => Checked::unknown("the limit is no number"),
    };
    checked.read([read])
}

/// Whether debugfs is; `None` if that can't be read.
fn mounted(look: &Look<'_>) -> Option<bool> {
    let mounts = look.file("/proc/self/mounts");
    let mut lines = mounts.text()?.lines();
    Some(lines.any(|l| l.split_ascii_whitespace().nth(1) == Some("/sys/kernel/debug")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Status;
    use crate::rules::fixture::{ask, assert_hazard, status};

    /// Check that another value is reported with the way back, and that debugfs out of sight is unknown.
    #[test]
    fn another_value_is_reported() {
        assert_hazard(
            &ask(&RULE, &[(FILE, "1")]),
            "echo 33 > /sys/kernel/debug/x86/tlb_single_page_flush_ceiling",
            "tmpfiles.d: w /sys/kernel/debug/x86/tlb_single_page_flush_ceiling - - - - 33",
        );
        assert_eq!(status(&RULE, &[(FILE, "512")]), Status::Hazard);
        assert_eq!(status(&RULE, &[(FILE, "33")]), Status::Ok);
        assert_eq!(status(&RULE, &[(FILE, "x")]), Status::Unknown);
        assert_eq!(
            status(&RULE, &[]),
            Status::Unknown,
            "debugfs is not mounted"
        );
        let bare = ask(&RULE, &[("/proc/self/mounts", "proc /proc proc rw 0 0")]);
        assert!(bare.said.contains("mount -t debugfs"), "{}", bare.said);
        let refused = [("/proc/self/mounts", "none /sys/kernel/debug debugfs rw 0 0")];
        assert!(ask(&RULE, &refused).said.contains("root"));
        let mounted = [("/sys/kernel/debug/sched/features", "")];
        assert_eq!(status(&RULE, &mounted), Status::Ok);
    }
}
