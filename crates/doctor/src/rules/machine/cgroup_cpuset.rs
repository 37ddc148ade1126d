//! CG-CPUSET: pages move when the nodes of its cgroup are changed.

use crate::cgroup::ControllerCgroup;
use crate::fix::shell_argument;
use crate::rules::prelude::*;

use super::common::cpu_list;

const ONLINE_NODES_FILE: &str = "/sys/devices/system/node/online";

pub(super) const CG_CPUSET: AuditRule = AuditRule {
    id: "CG-CPUSET",
    title: "pages follow the nodes of its cgroup",
    severity: Severity::Medium,
    why: "When the set of memory nodes is changed, or the program is moved to another cgroup, its pages are moved \
          to the new nodes: a shootdown for each batch, and who touches a page meanwhile waits.",
    risk: "Pages stay on the node where they are, which may be far from the CPUs.",
    source: "rigtorp.se/virtual-memory; kernel Documentation/admin-guide/cgroup-v2.rst, cpuset.mems; \
             Documentation/admin-guide/cgroup-v1/cpusets.rst, memory_migrate",
    causes: &[Cause::MigrateMove],
    check: RuleCheck::Process(check_cg_cpuset),
};

fn check_cg_cpuset(look: &SystemView<'_>, process: &AuditedProcess) -> CheckResult {
    // a list of nodes has the form of a list of CPUs
    let (online, first) = look.read(ONLINE_NODES_FILE);
    let (allowed, second) = process.status_field("Mems_allowed_list");
    let nodes = cpu_list(&online).map(|list| list.len().max(1));
    let cgroup = ControllerCgroup::of_process(process, "cpuset").filter(|c| c.is_visible(look));
    let moved = look.evidence.process_shootdowns_by(CG_CPUSET.causes);
    let migrate = match &cgroup {
        Some(cgroup) if !cgroup.v2 => {
            Some(look.read(&format!("{}/cpuset.memory_migrate", cgroup.folder)))
        }
        _ => None,
    };
    let checked = match (nodes, &cgroup, &migrate) {
        (Some(1), ..) => CheckResult::ok("this machine has one node"),
        (_, _, Some((value, read))) if value.number() == Some(1) => {
            // of cgroup v1 only
            CheckResult::hazard("cpuset.memory_migrate is on")
                .with_fix(Fix::Command(format!(
                    "echo 0 > {}",
                    shell_argument(&read.path)
                )))
                .with_fix(set_nodes_once(allowed.as_deref()))
        }
        (Some(_), ..) if moved.is_some_and(|n| n > 0) => {
            CheckResult::hazard("pages were moved on request")
                .with_fix(set_nodes_once(allowed.as_deref()))
        }
        (None, ..) => CheckResult::unknown("how many nodes there are can't be read"),
        (_, None, _) => CheckResult::unknown("its cgroup can't be seen from here"),
        (_, _, Some((FileValue::Text(text), _))) if text == "0" => {
            CheckResult::ok("its pages stay when the nodes are changed")
        }
        (_, _, Some((FileValue::Absent, _))) => CheckResult::ok("its cgroup has no set of nodes"),
        (_, _, Some(_)) => CheckResult::unknown("cpuset.memory_migrate can't be read"),
        (_, Some(_), None) if moved == Some(0) => CheckResult::ok("no page was moved on request"),
        // v2 moves pages at each change, from about Linux 5.15 on (kernel/cgroup/cpuset.c, CS_MEMORY_MIGRATE for the
        // default hierarchy); that one is made is not to be seen in the files
        (_, Some(_), None) => CheckResult::unknown("nobody looked for moves: use a trace"),
    };
    checked
        .with_reads([first, second])
        .with_reads(cgroup.map(|c| FileReading::new(process.proc_path("cgroup"), c.folder)))
        .with_reads(migrate.map(|(_, read)| read))
}

/// Set the nodes before the program has pages.
fn set_nodes_once(allowed: Option<&str>) -> Fix {
    match allowed {
        Some(nodes) if !nodes.is_empty() => Fix::Directive(format!("AllowedMemoryNodes={nodes}")),
        _ => Fix::Advice("cgroup: set cpuset.mems once, before the program starts".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::HarmEvidence;
    use crate::finding::FindingStatus;
    use crate::rules::fixture::{ask_rule_on, ask_rule_with, assert_hazard, status_on};

    const TWO: (&str, &str) = (ONLINE_NODES_FILE, "0-1");
    const MEMS: (&str, &str) = ("PID/status", "Name:\tprogram\nMems_allowed_list:\t1");
    const V1: (&str, &str) = ("PID/cgroup", "3:cpuset:/box\n0::/");
    const PROCS: (&str, &str) = ("/sys/fs/cgroup/cpuset/box/cgroup.procs", "4711");
    const MIGRATE: &str = "/sys/fs/cgroup/cpuset/box/cpuset.memory_migrate";

    /// Check that the switch of cgroup v1 is a hazard on a machine of several nodes, and on no other.
    #[test]
    fn the_switch_is_a_hazard() {
        let files = [TWO, MEMS, V1, PROCS, (MIGRATE, "1")];
        assert_hazard(
            &ask_rule_on(&CG_CPUSET, &files),
            "echo 0 > /sys/fs/cgroup/cpuset/box/cpuset.memory_migrate",
            "systemd service: AllowedMemoryNodes=1",
        );
        assert_eq!(
            status_on(&CG_CPUSET, &[TWO, MEMS, V1, PROCS, (MIGRATE, "0")]),
            FindingStatus::Ok
        );
        assert_eq!(
            status_on(&CG_CPUSET, &[TWO, MEMS, V1, PROCS, (MIGRATE, "x")]),
            FindingStatus::Unknown
        );
        assert_eq!(
            status_on(
                &CG_CPUSET,
                &[(ONLINE_NODES_FILE, "0"), V1, PROCS, (MIGRATE, "1")]
            ),
            FindingStatus::Ok
        );
        assert_eq!(
            status_on(&CG_CPUSET, &files[1..]),
            FindingStatus::Ok,
            "a kernel without nodes"
        );
        assert_eq!(
            status_on(&CG_CPUSET, &[(ONLINE_NODES_FILE, "x"), V1, PROCS]),
            FindingStatus::Unknown
        );
        assert_eq!(status_on(&CG_CPUSET, &[TWO]), FindingStatus::Unknown);
    }

    /// Check that of cgroup v2 only a trace tells, which always moves pages.
    #[test]
    fn version_2_needs_a_trace() {
        let files = [
            TWO,
            MEMS,
            ("PID/cgroup", "0::/box"),
            ("/sys/fs/cgroup/box/cgroup.procs", "4711"),
        ];
        assert_eq!(status_on(&CG_CPUSET, &files), FindingStatus::Unknown);
        let seen = |n| HarmEvidence {
            where_seen: "in t.quell".to_owned(),
            shootdowns_by_cause: Some([(Cause::MigrateMove, n)].into()),
            ..HarmEvidence::default()
        };
        let found = ask_rule_with(&CG_CPUSET, &files, &seen(3));
        assert_hazard(&found, "", "systemd service: AllowedMemoryNodes=1");
        assert_eq!(found.harm.unwrap().count, 3);
        assert_eq!(
            ask_rule_with(&CG_CPUSET, &files, &seen(0)).status,
            FindingStatus::Ok
        );
    }
}
