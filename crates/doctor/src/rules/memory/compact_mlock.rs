//! SYS-COMPACT-MLOCK: compaction moves locked pages too.

use quell_event::Cause;

use super::common;
use crate::finding::Severity;
use crate::fix::Fix;
use crate::look::{Look, Value};
use crate::rule::{Check, Checked, Rule};

const NAME: &str = "vm.compact_unevictable_allowed";
const FILE: &str = "/proc/sys/vm/compact_unevictable_allowed";

pub(super) const RULE: Rule = Rule {
    id: "SYS-COMPACT-MLOCK",
    title: "locked memory is compacted",
    severity: Severity::High,
    why: "mlock(2) keeps pages in memory, not in their place: compaction unmaps and moves them, a shootdown, and \
          who touches one meanwhile takes a fault and waits.",
    risk: "Huge pages are harder to get where much memory is locked.",
    source: "kernel Documentation/admin-guide/sysctl/vm.rst, compact_unevictable_allowed",
    causes: &[Cause::Compaction],
    check: Check::System(check),
};

fn check(look: &Look<'_>) -> Checked {
    let (value, read) = look.read(FILE);
    let (locked, locked_read) = common::vmstat(look, "nr_mlock");
    let now = locked.map_or(String::new(), |n| format!("; {n} are locked now"));
    let checked = match (value.number(), &value) {
        (Some(0), _) => Checked::ok("locked pages stay where they are"),
        (Some(1), _) => {
            Checked::hazard(format!("locked pages may be moved{now}")).fix(Fix::sysctl(NAME, "0"))
        }
        (None, Value::Absent) => Checked::ok("this kernel has no compaction"),
        _ => Checked::unknown("the setting can't be read"),
    };
    checked
        .read([read, locked_read])
        .grows(&["compact_migrate_scanned", "compact_isolated"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Status;
    use crate::rules::fixture::{ask, assert_hazard, status};

    /// Check that the kernel's default is a hazard, and 0 is none.
    #[test]
    fn the_default_is_a_hazard() {
        let found = ask(&RULE, &[(FILE, "1"), ("/proc/vmstat", "nr_mlock 12")]);
        assert_hazard(
            &found,
            "sysctl -w vm.compact_unevictable_allowed=0",
            "sysctl.d: vm.compact_unevictable_allowed = 0",
        );
        assert_eq!(found.said, "locked pages may be moved; 12 are locked now");
        assert_eq!(status(&RULE, &[(FILE, "0")]), Status::Ok);
        assert_eq!(status(&RULE, &[]), Status::Ok);
        assert_eq!(status(&RULE, &[(FILE, "x")]), Status::Unknown);
    }
}
