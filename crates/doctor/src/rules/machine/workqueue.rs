//! WQ-MASK: the kernel's workers may run on hot CPUs.

use quell_host::cpus;

use crate::finding::Severity;
use crate::fix::Fix;
use crate::look::{Look, Value};
use crate::rule::{Check, Checked, Rule};

use super::common::{for_hot, mask, mask_text, without};

const MASK: &str = "/sys/devices/virtual/workqueue/cpumask";
const WRITEBACK: &str = "/sys/devices/virtual/workqueue/writeback/cpumask";

pub(super) const RULE: Rule = Rule {
    id: "WQ-MASK",
    title: "kernel workers on hot CPUs",
    severity: Severity::Medium,
    why: "Work that is bound to no CPU, such as writeback, is done by a kworker on any CPU of this mask, which \
          the hot thread then has to share.",
    risk: "The other CPUs do that work.",
    source: "tuned profile realtime; kernel Documentation/core-api/workqueue.rst, Documentation/admin-guide/\
             kernel-per-CPU-kthreads.rst",
    causes: &[],
    check: Check::System(|look| for_hot(look, check)),
};

fn check(look: &Look<'_>, hot: &[u32]) -> Checked {
    let (value, first) = look.read(MASK);
    // What one queue may use is cut by the mask of all (kernel/workqueue.c, wqattrs_actualize_cpumask), so that
    // its own is here to read only.
    let (_, second) = look.read(WRITEBACK);
    let checked = match (value.text().and_then(mask), &value) {
        (Some(allowed), _) => {
            let rest = without(&allowed, hot);
            let shared = without(&allowed, &rest);
            if shared.is_empty() {
                Checked::ok("kernel workers keep off the hot CPUs")
            } else {
                let said = format!("kernel workers may run on CPUs {}", cpus::text(&shared));
                Checked::hazard(said).fix(if rest.is_empty() {
                    Fix::Advice("leave a CPU to the kernel".to_owned())
                } else {
                    Fix::write(MASK, mask_text(&rest))
                })
            }
        }
        // such a kernel has workers, and no way to keep them off
        (None, Value::Absent) => Checked::unknown(
            "this kernel has no such mask (before 4.2): where its workers run can't be told",
        ),
        (None, _) => Checked::unknown("the mask can't be read"),
    };
    checked.read([first, second])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Status;
    use crate::rules::fixture::{ask, assert_hazard, status};

    const ISOLATED: (&str, &str) = ("/sys/devices/system/cpu/isolated", "2-3");

    /// Check that a mask with hot CPUs is a hazard whose fix takes them out, and one without is fine.
    #[test]
    fn hot_cpus_in_the_mask() {
        let found = ask(&RULE, &[ISOLATED, (MASK, "ff"), (WRITEBACK, "ff")]);
        assert_hazard(
            &found,
            "echo f3 > /sys/devices/virtual/workqueue/cpumask",
            "tmpfiles.d: w /sys/devices/virtual/workqueue/cpumask - - - - f3",
        );
        assert!(found.said.ends_with("2-3"), "{}", found.said);
        assert_eq!(
            status(&RULE, &[ISOLATED, (MASK, "f3"), (WRITEBACK, "ff")]),
            Status::Ok
        );
        assert_eq!(status(&RULE, &[(MASK, "ff")]), Status::Ok, "no hot CPU");
        assert_eq!(status(&RULE, &[ISOLATED, (MASK, "x")]), Status::Unknown);
        assert_eq!(status(&RULE, &[ISOLATED]), Status::Unknown);
    }
}
