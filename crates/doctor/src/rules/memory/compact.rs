//! SYS-COMPACT: memory is compacted before anybody asks for it.

use quell_event::Cause;

use crate::finding::Severity;
use crate::fix::Fix;
use crate::look::{Look, Value};
use crate::rule::{Check, Checked, Rule};

const NAME: &str = "vm.compaction_proactiveness";
const FILE: &str = "/proc/sys/vm/compaction_proactiveness";

pub(super) const RULE: Rule = Rule {
    id: "SYS-COMPACT",
    title: "proactive compaction",
    severity: Severity::High,
    why: "kcompactd moves pages of running programs to make free blocks: each move is a shootdown, and who \
          touches the page meanwhile waits.",
    risk: "Huge pages are harder to get on a machine that has run for long.",
    source: "kernel Documentation/admin-guide/sysctl/vm.rst, compaction_proactiveness; rigtorp.se/virtual-memory",
    causes: &[Cause::Compaction],
    check: Check::System(check),
};

fn check(look: &Look<'_>) -> Checked {
    let (value, read) = look.read(FILE);
    let checked = match (value.number(), &value) {
        (Some(0), _) => Checked::ok("switched off"),
        (Some(n), _) => Checked::hazard(format!("on, with {n} of 100")).fix(Fix::sysctl(NAME, "0")),
        (None, Value::Absent) => Checked::ok("this kernel has none (before 5.9)"),
        (None, _) => Checked::unknown("the setting can't be read"),
    };
    // compact_migrate_scanned has the direct compaction of those who ask for memory too (mm/compaction.c)
    checked
        .read([read])
        .grows(&["compact_daemon_migrate_scanned"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Status;
    use crate::rules::fixture::{ask, ask_with, assert_hazard, grown, status};

    /// Check that the kernel's default is a hazard, and 0 is none.
    #[test]
    fn the_default_is_a_hazard() {
        assert_hazard(
            &ask(&RULE, &[(FILE, "20")]),
            "sysctl -w vm.compaction_proactiveness=0",
            "sysctl.d: vm.compaction_proactiveness = 0",
        );
        assert_eq!(status(&RULE, &[(FILE, "0")]), Status::Ok);
        assert_eq!(status(&RULE, &[]), Status::Ok);
        assert_eq!(status(&RULE, &[(FILE, "x")]), Status::Unknown);
    }

    /// Check that a file that sets it otherwise at each start is told with the fix.
    #[test]
    fn a_file_that_sets_it_again() {
        let file = (
            "/usr/lib/sysctl.d/99-other.conf",
            "vm.compaction_proactiveness = 20",
        );
        let found = ask(&RULE, &[(FILE, "20"), file]);
        assert!(
            found.notes[0].starts_with("/usr/lib/sysctl.d/99-other.conf sets"),
            "{:?}",
            found.notes
        );
        assert!(ask(&RULE, &[(FILE, "20")]).notes.is_empty());
    }

    /// Check that pages that kcompactd moved are its harm, and what others moved is none.
    #[test]
    fn moves_are_harm() {
        let direct = grown("compact_migrate_scanned", 7);
        assert!(ask_with(&RULE, &[(FILE, "20")], &direct).harm.is_none());
        let evidence = grown("compact_daemon_migrate_scanned", 7);
        let found = ask_with(&RULE, &[(FILE, "20")], &evidence);
        assert_eq!(
            found.harm.unwrap().what,
            "compact_daemon_migrate_scanned +7 in 1.00 s"
        );
    }
}
