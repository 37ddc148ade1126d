//! SYS-DEMOTE: reclaim moves pages to slower memory.

use quell_event::Cause;
use quell_host::cpus;

use super::common;
use crate::finding::{Read, Severity};
use crate::fix::Fix;
use crate::look::{Look, Value};
use crate::rule::{Check, Checked, Rule};

const TIERS: &str = "/sys/devices/virtual/memory_tiering";
const WITH_CPUS: &str = "/sys/devices/system/node/has_cpu";
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
        (Some("true"), Some(n)) => match lower(look) {
            (Some(true), _) => {
                Checked::hazard(format!("on, with {n} nodes, some of them of slower memory"))
                    .fix(Fix::write(FILE, "false"))
            }
            (Some(false), _) => Checked::ok("on, but no node is of slower memory"),
            (None, _) => Checked::unknown("on, but which nodes are of slower memory can't be read"),
        }
        .read([lower(look).1]),
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

/// Whether some memory is slower than other: it is of a lower tier (from 6.1 on), or its node has no CPUs.
fn lower(look: &Look<'_>) -> (Option<bool>, Read) {
    let tiers = look.list(TIERS, |name| name.starts_with("memory_tier"));
    let tiers = tiers
        .iter()
        .filter(|t| look.file(&format!("{t}/nodelist")).text() != Some(""));
    let tiers = tiers.count();
    if tiers > 0 {
        return (Some(tiers > 1), Read::new(TIERS, format!("{tiers} tiers")));
    }
    let (with, read) = look.read(WITH_CPUS);
    let list = |value: &Value| value.text().and_then(|text| cpus::list(text.trim()));
    let online = look.file("/sys/devices/system/node/online");
    let without = list(&with)
        .zip(list(&online))
        .map(|(with, online)| online.iter().any(|node| !with.contains(node)));
    (without, read)
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
            &ask(&RULE, &[(FILE, "true"), TWO, (WITH_CPUS, "0")]),
            "echo false > /sys/kernel/mm/numa/demotion_enabled",
            "tmpfiles.d: w /sys/kernel/mm/numa/demotion_enabled - - - - false",
        );
        let same = [(FILE, "true"), TWO, (WITH_CPUS, "0,2")];
        assert_eq!(status(&RULE, &same), Status::Ok, "both have CPUs");
        let tier = |n| format!("{TIERS}/memory_tier{n}/nodelist");
        let (fast, slow) = (tier(4), tier(22));
        let files = [(FILE, "true"), TWO, (&*fast, "0"), (&*slow, "2")];
        assert_eq!(status(&RULE, &files), Status::Hazard);
        assert_eq!(status(&RULE, &files[..3]), Status::Ok, "one tier");
        assert_eq!(status(&RULE, &[(FILE, "true"), TWO]), Status::Unknown);
        assert_eq!(status(&RULE, &[(FILE, "true"), ONE]), Status::Ok);
        assert_eq!(status(&RULE, &[(FILE, "false"), TWO]), Status::Ok);
        assert_eq!(status(&RULE, &[TWO]), Status::Ok);
        assert_eq!(status(&RULE, &[(FILE, "true")]), Status::Unknown);
        assert_eq!(status(&RULE, &[(FILE, "maybe"), TWO]), Status::Unknown);
    }
}
