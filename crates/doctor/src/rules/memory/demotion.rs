//! SYS-DEMOTE: reclaim moves pages to slower memory.

use crate::rules::prelude::*;

use super::common;

const MEMORY_TIERS_FOLDER: &str = "/sys/devices/virtual/memory_tiering";
const NODES_WITH_CPUS_FILE: &str = "/sys/devices/system/node/has_cpu";
const DEMOTION_FILE: &str = "/sys/kernel/mm/numa/demotion_enabled";

pub(super) const SYS_DEMOTE: AuditRule = AuditRule {
    id: "SYS-DEMOTE",
    title: "demotion to slower memory",
    severity: Severity::High,
    why: "Reclaim unmaps pages of running programs and moves them to a slower node: a shootdown, and from then \
          on each access is slower.",
    risk: "Memory of the fast node is reclaimed by discarding or swapping pages instead.",
    source: "kernel Documentation/ABI/testing/sysfs-kernel-mm-numa; LUF patch series",
    causes: &[Cause::MigrateDemote],
    check: RuleCheck::System(check_sys_demote),
};

fn check_sys_demote(look: &SystemView<'_>) -> CheckResult {
    let (value, read) = look.read(DEMOTION_FILE);
    let (nodes, nodes_read) = common::count_nodes(look);
    let checked = match (value.text().map(str::trim), nodes) {
        (Some("false"), _) => CheckResult::ok("switched off"),
        // there is no node below the only one (mm/memory-tiers.c)
        (Some("true"), Some(1)) => CheckResult::ok("on, but there is one node"),
        (Some("true"), Some(n)) => match has_slower_memory(look) {
            (Some(true), _) => {
                CheckResult::hazard(format!("on, with {n} nodes, some of them of slower memory"))
                    .with_fix(Fix::set_file(DEMOTION_FILE, "false"))
            }
            (Some(false), _) => CheckResult::ok("on, but no node is of slower memory"),
            (None, _) => {
                CheckResult::unknown("on, but which nodes are of slower memory can't be read")
            }
        }
        .with_reads([has_slower_memory(look).1]),
        (Some("true"), None) => {
            CheckResult::unknown("on, but how many nodes there are can't be read")
        }
        _ if value == FileValue::Absent => CheckResult::ok("this kernel has none"),
        _ => CheckResult::unknown("the setting can't be read"),
    };
    checked.with_reads([read, nodes_read]).with_harm_counters(&[
        "pgdemote_kswapd",
        "pgdemote_direct",
        "pgdemote_khugepaged",
        "pgdemote_proactive",
    ])
}

/// Whether some memory is slower than other: it is of a lower tier (from 6.1 on), or its node has no CPUs.
fn has_slower_memory(look: &SystemView<'_>) -> (Option<bool>, FileReading) {
    let tiers = look.files_in(MEMORY_TIERS_FOLDER, |name| name.starts_with("memory_tier"));
    let tiers = tiers
        .iter()
        .filter(|t| look.file(&format!("{t}/nodelist")).text() != Some(""));
    let tiers = tiers.count();
    if tiers > 0 {
        return (
            Some(tiers > 1),
            FileReading::new(MEMORY_TIERS_FOLDER, format!("{tiers} tiers")),
        );
    }
    let (with, read) = look.read(NODES_WITH_CPUS_FILE);
    let list = |value: &FileValue| {
        value
            .text()
            .and_then(|text| cpus::parse_cpu_list(text.trim()))
    };
    let online = look.file("/sys/devices/system/node/online");
    let without = list(&with)
        .zip(list(&online))
        .map(|(with, online)| online.iter().any(|node| !with.contains(node)));
    (without, read)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::FindingStatus;
    use crate::rules::fixture::{ask_rule_on, assert_hazard, status_on};

    const ONE: (&str, &str) = ("/sys/devices/system/node/online", "0");
    const TWO: (&str, &str) = ("/sys/devices/system/node/online", "0,2");

    /// Check that it is a hazard where there is a node to move to.
    #[test]
    fn on_is_a_hazard() {
        assert_hazard(
            &ask_rule_on(
                &SYS_DEMOTE,
                &[(DEMOTION_FILE, "true"), TWO, (NODES_WITH_CPUS_FILE, "0")],
            ),
            "echo false > /sys/kernel/mm/numa/demotion_enabled",
            "tmpfiles.d: w /sys/kernel/mm/numa/demotion_enabled - - - - false",
        );
        let same = [(DEMOTION_FILE, "true"), TWO, (NODES_WITH_CPUS_FILE, "0,2")];
        assert_eq!(
            status_on(&SYS_DEMOTE, &same),
            FindingStatus::Ok,
            "both have CPUs"
        );
        let tier = |n| format!("{MEMORY_TIERS_FOLDER}/memory_tier{n}/nodelist");
        let (fast, slow) = (tier(4), tier(22));
        let files = [(DEMOTION_FILE, "true"), TWO, (&*fast, "0"), (&*slow, "2")];
        assert_eq!(status_on(&SYS_DEMOTE, &files), FindingStatus::Hazard);
        assert_eq!(
            status_on(&SYS_DEMOTE, &files[..3]),
            FindingStatus::Ok,
            "one tier"
        );
        assert_eq!(
            status_on(&SYS_DEMOTE, &[(DEMOTION_FILE, "true"), TWO]),
            FindingStatus::Unknown
        );
        assert_eq!(
            status_on(&SYS_DEMOTE, &[(DEMOTION_FILE, "true"), ONE]),
            FindingStatus::Ok
        );
        assert_eq!(
            status_on(&SYS_DEMOTE, &[(DEMOTION_FILE, "false"), TWO]),
            FindingStatus::Ok
        );
        assert_eq!(status_on(&SYS_DEMOTE, &[TWO]), FindingStatus::Ok);
        assert_eq!(
            status_on(&SYS_DEMOTE, &[(DEMOTION_FILE, "true")]),
            FindingStatus::Unknown
        );
        assert_eq!(
            status_on(&SYS_DEMOTE, &[(DEMOTION_FILE, "maybe"), TWO]),
            FindingStatus::Unknown
        );
    }
}
