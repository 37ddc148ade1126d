//! SYS-KHUGE: khugepaged collapses pages.

use quell_event::Cause;

use super::common;
use crate::finding::Severity;
use crate::fix::Fix;
use crate::look::{Look, Value};
use crate::rule::{Check, Checked, Rule};

const COUNTER: &str = "khugepaged.pages_collapsed";
const COLLAPSED: &str = "/sys/kernel/mm/transparent_hugepage/khugepaged/pages_collapsed";
const DEFRAG: &str = "/sys/kernel/mm/transparent_hugepage/khugepaged/defrag";
const SLEEP: &str = "/sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs";
/// Between two scans of some pages: an hour.
const LONG: &str = "3600000";

pub(super) const RULE: Rule = Rule {
    id: "SYS-KHUGE",
    title: "khugepaged collapses pages",
    severity: Severity::High,
    why: "It unmaps 512 pages of a running program, copies them into a huge one and flushes every CPU that runs \
          the program; who touches them meanwhile waits.",
    risk: "Memory that was filled page by page stays in small pages: more misses of the TLB.",
    source: "kernel Documentation/admin-guide/mm/transhuge.rst, khugepaged; mm/khugepaged.c; \
             rigtorp.se/virtual-memory",
    causes: &[Cause::ThpCollapse],
    check: Check::System(check),
};

fn check(look: &Look<'_>) -> Checked {
    let (collapsed, read) = look.read(COLLAPSED);
    let (defrag, defrag_read) = look.read(DEFRAG);
    let counted = look.evidence().grown(COUNTER);
    let sent = look.evidence().shootdowns(&[Cause::ThpCollapse]);
    let checked = match (counted, sent) {
        _ if collapsed == Value::Absent => Checked::ok("this kernel has no transparent huge pages"),
        (Some(n), _) if n > 0 => hazard(format!("huge pages made of small ones: {n}"), &defrag),
        (_, Some(n)) if n > 0 => hazard("pages were collapsed".to_owned(), &defrag),
        _ if common::thp_given(look) == Some(false) => {
            Checked::ok("no program is given huge pages, so khugepaged rests")
        }
        _ if collapsed.number().is_none() => Checked::unknown("what khugepaged did can't be read"),
        (Some(_), _) => Checked::ok("khugepaged collapsed nothing"),
        (None, _) => Checked::unknown(crate::rules::unseen(look)),
    };
    checked.read([read, defrag_read]).grows(&[COUNTER])
}

fn hazard(said: String, defrag: &Value) -> Checked {
    let checked = Checked::hazard(said).fix(Fix::write(SLEEP, LONG)).note(
        "SYS-THP has the setting that gives huge pages at all: with 'never' khugepaged rests",
    );
    // it moves other pages to have room for the huge one
    if defrag.number() == Some(0) {
        checked
    } else {
        checked.fix(Fix::write(DEFRAG, "0"))
    }
}

#[cfg(test)]
mod tests {
    use super::common::THP_ENABLED;
    use super::*;
    use crate::evidence::Evidence;
    use crate::finding::Status;
    use crate::rules::fixture::{ask_with, assert_hazard, grown, status};

    const FILES: [(&str, &str); 3] = [
        (COLLAPSED, "6"),
        (DEFRAG, "1"),
        (THP_ENABLED, "always [madvise] never"),
    ];

    /// Check that a collapse while somebody looked is a hazard with its harm, and that none is fine.
    #[test]
    fn a_collapse_is_a_hazard() {
        let found = ask_with(&RULE, &FILES, &grown(COUNTER, 3));
        assert_hazard(
            &found,
            "echo 3600000 > /sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs\n\
             echo 0 > /sys/kernel/mm/transparent_hugepage/khugepaged/defrag",
            "tmpfiles.d: w /sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs - - - - 3600000\n\
             tmpfiles.d: w /sys/kernel/mm/transparent_hugepage/khugepaged/defrag - - - - 0",
        );
        assert_eq!(found.harm.unwrap().what, format!("{COUNTER} +3 in 1.00 s"));
        assert_eq!(
            ask_with(&RULE, &FILES, &grown(COUNTER, 0)).status,
            Status::Ok
        );
    }

    /// Check that a trace with its shootdowns tells too.
    #[test]
    fn a_trace_tells() {
        let mut traced = Evidence {
            seen: "in t.quell".to_owned(),
            causes: Some([(Cause::ThpCollapse, 2)].into()),
            ..Evidence::default()
        };
        assert_eq!(ask_with(&RULE, &FILES, &traced).status, Status::Hazard);
        traced.causes = Some([(Cause::ThpCollapse, 0)].into());
        assert_eq!(ask_with(&RULE, &FILES, &traced).status, Status::Unknown);
    }

    /// Check that one look tells only where nobody is given huge pages.
    #[test]
    fn one_look_tells_little() {
        assert_eq!(status(&RULE, &FILES), Status::Unknown);
        let off = (THP_ENABLED, "always madvise [never]");
        assert_eq!(status(&RULE, &[(COLLAPSED, "6"), off]), Status::Ok);
        assert_eq!(status(&RULE, &[]), Status::Ok);
        assert_eq!(
            ask_with(&RULE, &[(COLLAPSED, "x"), FILES[2]], &grown(COUNTER, 0)).status,
            Status::Unknown
        );
    }
}
