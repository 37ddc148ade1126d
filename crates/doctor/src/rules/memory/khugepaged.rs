//! SYS-KHUGE: khugepaged collapses pages.

use crate::rules::prelude::*;

use super::common;

const COLLAPSE_COUNTER: &str = "khugepaged.pages_collapsed";
const COLLAPSED_FILE: &str = "/sys/kernel/mm/transparent_hugepage/khugepaged/pages_collapsed";
const KHUGEPAGED_DEFRAG_FILE: &str = "/sys/kernel/mm/transparent_hugepage/khugepaged/defrag";
const SCAN_SLEEP_FILE: &str = "/sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs";
/// Between two scans of some pages: an hour.
const LONG_SLEEP_MS: &str = "3600000";

pub(super) const SYS_KHUGE: AuditRule = AuditRule {
    id: "SYS-KHUGE",
    title: "khugepaged collapses pages",
    severity: Severity::High,
    why: "It unmaps 512 pages of a running program, copies them into a huge one and flushes every CPU that runs \
          the program; who touches them meanwhile waits.",
    risk: "Memory that was filled page by page stays in small pages: more misses of the TLB.",
    source: "kernel Documentation/admin-guide/mm/transhuge.rst, khugepaged; mm/khugepaged.c; \
             rigtorp.se/virtual-memory",
    causes: &[Cause::ThpCollapse],
    check: RuleCheck::System(check_sys_khuge),
};

fn check_sys_khuge(look: &SystemView<'_>) -> CheckResult {
    let (collapsed, read) = look.read(COLLAPSED_FILE);
    let (defrag, defrag_read) = look.read(KHUGEPAGED_DEFRAG_FILE);
    let counted = look.evidence.growth_of(COLLAPSE_COUNTER);
    let sent = look.evidence.shootdowns_by(&[Cause::ThpCollapse]);
    let checked = match (counted, sent) {
        _ if collapsed == FileValue::Absent => {
            CheckResult::ok("this kernel has no transparent huge pages")
        }
        (Some(n), _) if n > 0 => {
            collapse_hazard(format!("huge pages made of small ones: {n}"), &defrag)
        }
        (_, Some(n)) if n > 0 => collapse_hazard("pages were collapsed".to_owned(), &defrag),
        _ if common::is_thp_given(look) == Some(false) => {
            CheckResult::ok("no program is given huge pages, so khugepaged rests")
        }
        _ if collapsed.number().is_none() => {
            CheckResult::unknown("what khugepaged did can't be read")
        }
        (Some(_), _) => CheckResult::ok("khugepaged collapsed nothing"),
        (None, _) => CheckResult::unknown(crate::rules::why_no_growth(look)),
    };
    checked
        .with_reads([read, defrag_read])
        .with_harm_counters(&[COLLAPSE_COUNTER])
}

fn collapse_hazard(said: String, defrag: &FileValue) -> CheckResult {
    let checked = CheckResult::hazard(said)
        .with_fix(Fix::set_file(SCAN_SLEEP_FILE, LONG_SLEEP_MS))
        .with_note(
            "SYS-THP has the setting that gives huge pages at all: with 'never' khugepaged rests",
        );
    // it moves other pages to have room for the huge one
    if defrag.number() == Some(0) {
        checked
    } else {
        checked.with_fix(Fix::set_file(KHUGEPAGED_DEFRAG_FILE, "0"))
    }
}

#[cfg(test)]
mod tests {
    use super::common::THP_ENABLED_FILE;
    use super::*;
    use crate::evidence::HarmEvidence;
    use crate::finding::FindingStatus;
    use crate::rules::fixture::{ask_rule_with, assert_hazard, evidence_of_growth, status_on};

    const FILES: [(&str, &str); 3] = [
        (COLLAPSED_FILE, "6"),
        (KHUGEPAGED_DEFRAG_FILE, "1"),
        (THP_ENABLED_FILE, "always [madvise] never"),
    ];

    /// Check that a collapse while somebody looked is a hazard with its harm, and that none is fine.
    #[test]
    fn a_collapse_is_a_hazard() {
        let found = ask_rule_with(&SYS_KHUGE, &FILES, &evidence_of_growth(COLLAPSE_COUNTER, 3));
        assert_hazard(
            &found,
            "echo 3600000 > /sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs\n\
             echo 0 > /sys/kernel/mm/transparent_hugepage/khugepaged/defrag",
            "tmpfiles.d: w /sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs - - - - 3600000\n\
             tmpfiles.d: w /sys/kernel/mm/transparent_hugepage/khugepaged/defrag - - - - 0",
        );
        assert_eq!(
            found.harm.unwrap().description,
            format!("{COLLAPSE_COUNTER} +3 in 1.00 s")
        );
        assert_eq!(
            ask_rule_with(&SYS_KHUGE, &FILES, &evidence_of_growth(COLLAPSE_COUNTER, 0)).status,
            FindingStatus::Ok
        );
    }

    /// Check that a trace with its shootdowns tells too.
    #[test]
    fn a_trace_tells() {
        let mut traced = HarmEvidence {
            where_seen: "in t.quell".to_owned(),
            shootdowns_by_cause: Some([(Cause::ThpCollapse, 2)].into()),
            ..HarmEvidence::default()
        };
        assert_eq!(
            ask_rule_with(&SYS_KHUGE, &FILES, &traced).status,
            FindingStatus::Hazard
        );
        traced.shootdowns_by_cause = Some([(Cause::ThpCollapse, 0)].into());
        assert_eq!(
            ask_rule_with(&SYS_KHUGE, &FILES, &traced).status,
            FindingStatus::Unknown
        );
    }

    /// Check that one look tells only where nobody is given huge pages.
    #[test]
    fn one_look_tells_little() {
        assert_eq!(status_on(&SYS_KHUGE, &FILES), FindingStatus::Unknown);
        let off = (THP_ENABLED_FILE, "always madvise [never]");
        assert_eq!(
            status_on(&SYS_KHUGE, &[(COLLAPSED_FILE, "6"), off]),
            FindingStatus::Ok
        );
        assert_eq!(status_on(&SYS_KHUGE, &[]), FindingStatus::Ok);
        assert_eq!(
            ask_rule_with(
                &SYS_KHUGE,
                &[(COLLAPSED_FILE, "x"), FILES[2]],
                &evidence_of_growth(COLLAPSE_COUNTER, 0)
            )
            .status,
            FindingStatus::Unknown
        );
    }
}
