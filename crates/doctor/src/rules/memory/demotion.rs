//! SYS-DEMOTE: reclaim moves pages to slower memory.

use quell_event::Cause;

use super::common;
use crate::finding::Severity;
use crate::fix::Fix;
use crate::look::{Look, Value};
use crate::rule::{Check, Checked, Rule};

const FILE: &str = "/sys/kernel/mm/numa/demotion_enabled";

pub(super) const RULE: Rule = Rule {
    id: "SYS-DEMOTE",
    title: "demotion to slower memory",
    severity: Severity::High,
    why: "Reclaim unmaps pages of running programs and moves them to a slower node: a shootdown, and from then \
          on each access is slower.",
    risk: "Memory of the fast node is reclaimed by discarding or swapping pages instead.",
    source: "kernel Documentation/ABI/testing/sysfs-kernel-mm-numa; LUF patch series",
    causes: &[Cause::MigrateDemote],
    check: Check::System(check),
};

fn check(look: &Look<'_>) -> Checked {
    let (value, read) = look.read(FILE);
    let (nodes, nodes_read) = common::nodes(look);
    let checked = match (value.text().map(str::trim), nodes) {
        (Some("false"), _) => Checked::ok("switched off"),
        // there is no node below the only one (mm/memory-tiers.c)
        (Some("true"), Some(1)) => Checked::ok("on, but there is one node"),
        (Some("true"), Some(n)) => {
            Checked::hazard(format!("on, with {n} nodes")).fix(Fix::write(FILE, "false"))
        }
        (Some("true"), None) => Checked::unknown("on, but how many nodes there are can't be read"),
        _ if value == Value::Absent => Checked::ok("this kernel has none"),
        _ => Checked::unknown("the setting can't be read"),
    };
    checked.read([read, nodes_read]).grows(&[
        "pgdemote_kswapd",
        "pgdemote_direct",
        "pgdemote_khugepaged",
        "pgdemote_proactive",
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Status;
    use crate::rules::fixture::{ask, assert_hazard, status};

    const ONE: (&str, &str) = ("/sys/devices/system/node/online", "0");
    const TWO: (&str, &str) = ("/sys/devices/system/node/online", "0,2");

    /// Check that it is a hazard where there is a node to move to.
    #[test]
    fn on_is_a_hazard() {
        assert_hazard(
            &ask(&RULE, &[(FILE, "true"), TWO]),
            "echo false > /sys/kernel/mm/numa/demotion_enabled",
            "tmpfiles.d: w /sys/kernel/mm/numa/demotion_enabled - - - - false",
        );
        assert_eq!(status(&RULE, &[(FILE, "true"), ONE]), Status::Ok);
        assert_eq!(status(&RULE, &[(FILE, "false"), TWO]), Status::Ok);
        assert_eq!(status(&RULE, &[TWO]), Status::Ok);
        assert_eq!(status(&RULE, &[(FILE, "true")]), Status::Unknown);
        assert_eq!(status(&RULE, &[(FILE, "maybe"), TWO]), Status::Unknown);
    }
}
