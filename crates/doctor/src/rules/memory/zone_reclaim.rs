//! SYS-ZRECLAIM: a node's memory is reclaimed before another node's is used.

use crate::finding::Severity;
use crate::fix::Fix;
use crate::look::{Look, Value};
use crate::rule::{Check, Checked, Rule};

const NAME: &str = "vm.zone_reclaim_mode";
const FILE: &str = "/proc/sys/vm/zone_reclaim_mode";

pub(super) const RULE: Rule = Rule {
    id: "SYS-ZRECLAIM",
    title: "reclaim before memory of another node",
    severity: Severity::Medium,
    why: "Who allocates when the near node is short reclaims pages there first, in its own time, though other \
          nodes have free memory.",
    risk: "More memory is allocated on far nodes.",
    source: "kernel Documentation/admin-guide/sysctl/vm.rst, zone_reclaim_mode; mm/vmscan.c node_reclaim",
    // only bit 2 (swap) lets it unmap pages, so that most of reclaim's shootdowns are not its own
    causes: &[],
    check: Check::System(check),
};

fn check(look: &Look<'_>) -> Checked {
    let (value, read) = look.read(FILE);
    let checked = match (value.number(), &value) {
        (Some(0), _) => Checked::ok("switched off"),
        (Some(mode), _) => Checked::hazard(format!("on (mode {mode})")).fix(Fix::sysctl(NAME, "0")),
        (None, Value::Absent) => Checked::ok("this kernel has none (no NUMA)"),
        (None, _) => Checked::unknown("the setting can't be read"),
    };
    checked
        .read([read])
        .grows(&["zone_reclaim_success", "zone_reclaim_failed"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Status;
    use crate::rules::fixture::{ask, assert_hazard, status};

    /// Check that any mode is a hazard, and 0 is none.
    #[test]
    fn on_is_a_hazard() {
        for mode in ["1", "2", "7"] {
            assert_hazard(
                &ask(&RULE, &[(FILE, mode)]),
                "sysctl -w vm.zone_reclaim_mode=0",
                "sysctl.d: vm.zone_reclaim_mode = 0",
            );
        }
        assert_eq!(status(&RULE, &[(FILE, "0")]), Status::Ok);
        assert_eq!(status(&RULE, &[]), Status::Ok);
        assert_eq!(status(&RULE, &[(FILE, "")]), Status::Unknown);
    }
}
