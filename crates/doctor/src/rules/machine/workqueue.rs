//! WQ-MASK: the kernel's workers may run on hot CPUs.

use crate::rules::prelude::*;

use super::common::{check_hot_cpus, cpu_mask_text, cpus_without, parse_cpu_mask};

const WORKQUEUE_MASK_FILE: &str = "/sys/devices/virtual/workqueue/cpumask";
const WRITEBACK_MASK_FILE: &str = "/sys/devices/virtual/workqueue/writeback/cpumask";

pub(super) const WQ_MASK: AuditRule = AuditRule {
    id: "WQ-MASK",
    title: "kernel workers on hot CPUs",
    severity: Severity::Medium,
    why: "Work that is bound to no CPU, such as writeback, is done by a kworker on any CPU of this mask, which \
          the hot thread then has to share.",
    risk: "The other CPUs do that work.",
    source: "tuned profile realtime; kernel Documentation/core-api/workqueue.rst, Documentation/admin-guide/\
             kernel-per-CPU-kthreads.rst",
    causes: &[],
    check: RuleCheck::System(|look| check_hot_cpus(look, check_wq_mask)),
};

fn check_wq_mask(look: &SystemView<'_>, hot: &[u32]) -> CheckResult {
    let (value, first) = look.read(WORKQUEUE_MASK_FILE);
    // What one queue may use is cut by the mask of all (kernel/workqueue.c, wqattrs_actualize_cpumask), so that
    // its own is here to read only.
    let (_, second) = look.read(WRITEBACK_MASK_FILE);
    let checked = match (value.text().and_then(parse_cpu_mask), &value) {
        (Some(allowed), _) => {
            let rest = cpus_without(&allowed, hot);
            let shared = cpus_without(&allowed, &rest);
            if shared.is_empty() {
                CheckResult::ok("kernel workers keep off the hot CPUs")
            } else {
                let said = format!(
                    "kernel workers may run on CPUs {}",
                    cpus::format_cpu_list(&shared)
                );
                CheckResult::hazard(said).with_fix(if rest.is_empty() {
                    Fix::Advice("leave a CPU to the kernel".to_owned())
                } else {
                    Fix::set_file(WORKQUEUE_MASK_FILE, cpu_mask_text(&rest))
                })
            }
        }
        // such a kernel has workers, and no way to keep them off
        (None, FileValue::Absent) => CheckResult::unknown(
            "this kernel has no such mask (before 4.2): where its workers run can't be told",
        ),
        (None, _) => CheckResult::unknown("the mask can't be read"),
    };
    checked.with_reads([first, second])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::FindingStatus;
    use crate::rules::fixture::{ask_rule_on, assert_hazard, status_on};

    const ISOLATED: (&str, &str) = ("/sys/devices/system/cpu/isolated", "2-3");

    /// Check that a mask with hot CPUs is a hazard whose fix takes them out, and one without is fine.
    #[test]
    fn hot_cpus_in_the_mask() {
        let found = ask_rule_on(
            &WQ_MASK,
            &[
                ISOLATED,
                (WORKQUEUE_MASK_FILE, "ff"),
                (WRITEBACK_MASK_FILE, "ff"),
            ],
        );
        assert_hazard(
            &found,
            "echo f3 > /sys/devices/virtual/workqueue/cpumask",
            "tmpfiles.d: w /sys/devices/virtual/workqueue/cpumask - - - - f3",
        );
        assert!(found.said.ends_with("2-3"), "{}", found.said);
        assert_eq!(
            status_on(
                &WQ_MASK,
                &[
                    ISOLATED,
                    (WORKQUEUE_MASK_FILE, "f3"),
                    (WRITEBACK_MASK_FILE, "ff")
                ]
            ),
            FindingStatus::Ok
        );
        assert_eq!(
            status_on(&WQ_MASK, &[(WORKQUEUE_MASK_FILE, "ff")]),
            FindingStatus::Ok,
            "no hot CPU"
        );
        assert_eq!(
            status_on(&WQ_MASK, &[ISOLATED, (WORKQUEUE_MASK_FILE, "x")]),
            FindingStatus::Unknown
        );
        assert_eq!(status_on(&WQ_MASK, &[ISOLATED]), FindingStatus::Unknown);
    }
}
