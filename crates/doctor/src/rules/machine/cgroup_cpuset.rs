//! CG-CPUSET: pages move when the nodes of its cgroup are changed.

use quell_event::Cause;

use crate::finding::{Read, Severity};
use crate::fix::{Fix, quoted};
use crate::look::{Look, Value};
use crate::process::Process;
use crate::rule::{Check, Checked, Rule};

use super::common::{Cgroup, cpu_list};

const NODES: &str = "/sys/devices/system/node/online";

pub(super) const RULE: Rule = Rule {
    id: "CG-CPUSET",
    title: "pages follow the nodes of its cgroup",
    severity: Severity::Medium,
    why: "When the set of memory nodes is changed, or the program is moved to another cgroup, its pages are moved \
          to the new nodes: a shootdown for each batch, and who touches a page meanwhile waits.",
    risk: "Pages stay on the node where they are, which may be far from the CPUs.",
    source: "rigtorp.se/virtual-memory; kernel Documentation/admin-guide/cgroup-v2.rst, cpuset.mems; \
             Documentation/admin-guide/cgroup-v1/cpusets.rst, memory_migrate",
    causes: &[Cause::MigrateMove],
    check: Check::Process(check),
};

fn check(look: &Look<'_>, process: &Process) -> Checked {
    // a list of nodes has the form of a list of CPUs
    let (online, first) = look.read(NODES);
    let (allowed, second) = process.status("Mems_allowed_list");
    let nodes = cpu_list(&online).map(|list| list.len().max(1));
    let cgroup = Cgroup::of(process, "cpuset").filter(|c| c.is_visible(look));
    let moved = look.evidence().of_process(RULE.causes);
    let migrate = match &cgroup {
        Some(cgroup) if !cgroup.v2 => {
            Some(look.read(&format!("{}/cpuset.memory_migrate", cgroup.folder)))
        }
        _ => None,
    };
    let checked = match (nodes, &cgroup, &migrate) {
        (Some(1), ..) => Checked::ok("this machine has one node"),
        (_, _, Some((value, read))) if value.number() == Some(1) => {
            // of cgroup v1 only
            Checked::hazard("cpuset.memory_migrate is on")
                .fix(Fix::Command(format!("echo 0 > {}", quoted(&read.path))))
                .fix(once(allowed.as_deref()))
        }
        (Some(_), ..) if moved.is_some_and(|n| n > 0) => {
            Checked::hazard("pages were moved on request").fix(once(allowed.as_deref()))
        }
        (None, ..) => Checked::unknown("how many nodes there are can't be read"),
        (_, None, _) => Checked::unknown("its cgroup can't be seen from here"),
        (_, _, Some((Value::Text(text), _))) if text == "0" => {
            Checked::ok("its pages stay when the nodes are changed")
        }
        (_, _, Some((Value::Absent, _))) => Checked::ok("its cgroup has no set of nodes"),
        (_, _, Some(_)) => Checked::unknown("cpuset.memory_migrate can't be read"),
        (_, Some(_), None) if moved == Some(0) => Checked::ok("no page was moved on request"),
        // v2 moves pages at each change, from about Linux 5.15 on (kernel/cgroup/cpuset.c, CS_MEMORY_MIGRATE for the
        // default hierarchy); that one is made is not to be seen in the files
        (_, Some(_), None) => Checked::unknown("nobody looked for moves: use a trace"),
    };
    checked
        .read([first, second])
        .read(cgroup.map(|c| Read::new(process.path("cgroup"), c.folder)))
        .read(migrate.map(|(_, read)| read))
}

/// Set the nodes before the program has pages.
fn once(allowed: Option<&str>) -> Fix {
    match allowed {
        Some(nodes) if !nodes.is_empty() => Fix::Directive(format!("AllowedMemoryNodes={nodes}")),
        _ => Fix::Advice("cgroup: set cpuset.mems once, before the program starts".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::Evidence;
    use crate::finding::Status;
    use crate::rules::fixture::{ask, ask_with, assert_hazard, status};

    const TWO: (&str, &str) = (NODES, "0-1");
    const MEMS: (&str, &str) = ("PID/status", "Name:\tprogram\nMems_allowed_list:\t1");
    const V1: (&str, &str) = ("PID/cgroup", "3:cpuset:/box\n0::/");
    const PROCS: (&str, &str) = ("/sys/fs/cgroup/cpuset/box/cgroup.procs", "4711");
    const MIGRATE: &str = "/sys/fs/cgroup/cpuset/box/cpuset.memory_migrate";

    /// Check that the switch of cgroup v1 is a hazard on a machine of several nodes, and on no other.
    #[test]
    fn the_switch_is_a_hazard() {
        let files = [TWO, MEMS, V1, PROCS, (MIGRATE, "1")];
        assert_hazard(
            &ask(&RULE, &files),
            "echo 0 > /sys/fs/cgroup/cpuset/box/cpuset.memory_migrate",
            "systemd service: AllowedMemoryNodes=1",
        );
        assert_eq!(
            status(&RULE, &[TWO, MEMS, V1, PROCS, (MIGRATE, "0")]),
            Status::Ok
        );
        assert_eq!(
            status(&RULE, &[TWO, MEMS, V1, PROCS, (MIGRATE, "x")]),
            Status::Unknown
        );
        assert_eq!(
            status(&RULE, &[(NODES, "0"), V1, PROCS, (MIGRATE, "1")]),
            Status::Ok
        );
        assert_eq!(
            status(&RULE, &files[1..]),
            Status::Ok,
            "a kernel without nodes"
        );
        assert_eq!(status(&RULE, &[(NODES, "x"), V1, PROCS]), Status::Unknown);
        assert_eq!(status(&RULE, &[TWO]), Status::Unknown);
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
        assert_eq!(status(&RULE, &files), Status::Unknown);
        let seen = |n| Evidence {
            seen: "in t.quell".to_owned(),
            causes: Some([(Cause::MigrateMove, n)].into()),
            ..Evidence::default()
        };
        let found = ask_with(&RULE, &files, &seen(3));
        assert_hazard(&found, "", "systemd service: AllowedMemoryNodes=1");
        assert_eq!(found.harm.unwrap().count, 3);
        assert_eq!(ask_with(&RULE, &files, &seen(0)).status, Status::Ok);
    }
}
