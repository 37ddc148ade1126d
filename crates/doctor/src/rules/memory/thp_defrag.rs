//! SYS-THP-DEFRAG: a page fault makes room for a huge page.

use quell_event::Cause;

use super::common;
use crate::finding::{Read, Severity};
use crate::fix::Fix;
use crate::look::{Look, Value};
use crate::rule::{Check, Checked, Rule};

const DEFRAG: &str = "/sys/kernel/mm/transparent_hugepage/defrag";

pub(super) const RULE: Rule = Rule {
    id: "SYS-THP-DEFRAG",
    title: "page faults make room for huge pages",
    severity: Severity::High,
    why: "Where no free block is at hand the fault itself reclaims and moves pages until there is one: the \
          program waits, and each page that is moved is a shootdown.",
    risk: "Huge pages are given only where a free block is at hand; 'defer' has kcompactd make some meanwhile, \
           which moves pages too.",
    source: "kernel Documentation/admin-guide/mm/transhuge.rst, defrag; mm/huge_memory.c vma_thp_gfp_mask; \
             rigtorp.se/virtual-memory",
    causes: &[Cause::Compaction],
    check: Check::System(check),
};

fn check(look: &Look<'_>) -> Checked {
    let (value, read) = look.read(DEFRAG);
    let none_given = common::thp_given(look) == Some(false);
    let checked = match (value.chosen(), &value) {
        (Some("always"), _) if none_given => {
            hazard("every fault for a huge page may wait; none is given for now")
                .severity(Severity::Low)
        }
        (Some("always"), _) => hazard("every fault for a huge page may wait"),
        (Some("madvise" | "defer+madvise"), _) if none_given => {
            Checked::ok("no program is given huge pages")
        }
        (Some("madvise" | "defer+madvise"), _) => asking(look),
        (Some(other @ ("defer" | "never")), _) => Checked::ok(format!("set to {other}")),
        (None, Value::Absent) => Checked::ok("this kernel has no transparent huge pages"),
        _ => Checked::unknown("the setting can't be read"),
    };
    let checked = if look.runs("mongod") {
        checked.note("mongod runs here: version 8 and later wants 'defer+madvise'")
    } else {
        checked
    };
    checked.read([read]).grows(&["compact_stall"])
}

fn hazard(said: impl Into<String>) -> Checked {
    Checked::hazard(said).fix(Fix::write(DEFRAG, "never"))
}

/// Where those wait that asked for huge pages by madvise(2).
fn asking(look: &Look<'_>) -> Checked {
    let Some(process) = look.process() else {
        return Checked::ok(
            "only programs that ask for huge pages wait for them (--pid tells of one)",
        );
    };
    let path = format!("{} VmFlags hg", process.path("smaps"));
    match process.flagged(&["hg"]) {
        Some(0) => Checked::ok("the process asks for no huge pages").read([Read::new(path, "0")]),
        Some(n) => hazard("those who ask for huge pages wait for them, and the process asks")
            .read([Read::new(path, n.to_string())]),
        None => Checked::unknown("whether the process asks for huge pages can't be read")
            .read([Read::new(path, "(not readable)")]),
    }
}

#[cfg(test)]
mod tests {
    use super::common::THP_ENABLED;
    use super::*;
    use crate::finding::Status;
    use crate::rules::fixture::{ask, assert_hazard, status};

    const ON: (&str, &str) = (THP_ENABLED, "always [madvise] never");
    const OFF: (&str, &str) = (THP_ENABLED, "always madvise [never]");
    const ALWAYS: (&str, &str) = (DEFRAG, "[always] defer defer+madvise madvise never");
    const MADVISE: (&str, &str) = (DEFRAG, "always defer defer+madvise [madvise] never");

    /// Check that a wait in every fault is a hazard, a lesser one where none is given huge pages.
    #[test]
    fn always_is_a_hazard() {
        let found = ask(&RULE, &[ON, ALWAYS]);
        assert_hazard(
            &found,
            "echo never > /sys/kernel/mm/transparent_hugepage/defrag",
            "tmpfiles.d: w /sys/kernel/mm/transparent_hugepage/defrag - - - - never",
        );
        assert_eq!(found.severity, Severity::High);
        assert_eq!(ask(&RULE, &[OFF, ALWAYS]).severity, Severity::Low);
        let defer = (DEFRAG, "always [defer] defer+madvise madvise never");
        assert_eq!(status(&RULE, &[ON, defer]), Status::Ok);
        assert_eq!(status(&RULE, &[]), Status::Ok);
        assert_eq!(status(&RULE, &[ON, (DEFRAG, "[x]")]), Status::Unknown);
    }

    /// Check that `madvise` is a hazard for a process that asks, and for no other.
    #[test]
    fn asking_is_a_hazard() {
        assert_eq!(status(&RULE, &[ON, MADVISE]), Status::Ok);
        let rule = Rule {
            check: Check::Process(|look, _| check(look)),
            ..RULE
        };
        let of = |top, smaps| status(&rule, &[top, MADVISE, ("PID/smaps", smaps)]);
        assert_eq!(of(ON, "VmFlags: rd wr hg ac"), Status::Hazard);
        assert_eq!(of(OFF, "VmFlags: rd wr hg ac"), Status::Ok);
        assert_eq!(of(ON, "VmFlags: rd wr ac"), Status::Ok);
        assert_eq!(status(&rule, &[ON, MADVISE]), Status::Unknown);
    }
}
