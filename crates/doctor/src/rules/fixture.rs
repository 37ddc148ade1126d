//! Machines made of files, to ask a rule about.

use std::fs;

use crate::evidence::HarmEvidence;
use crate::finding::{Finding, FindingStatus};
use crate::harm;
use crate::profile::WorkloadProfile;
use crate::rule::{AuditRule, RuleCheck};
use crate::system_view::SystemView;

/// The process that is looked at.
pub(crate) const FIXTURE_PID: u32 = 4711;

/// The finding of a rule on a machine with these files, and a process [`PID`] with those that begin with `PID/`.
pub(crate) fn ask_rule_on(rule: &AuditRule, files: &[(&str, &str)]) -> Finding {
    ask_rule_with(rule, files, &HarmEvidence::default())
}

/// The same, with evidence.
pub(crate) fn ask_rule_with(
    rule: &AuditRule,
    files: &[(&str, &str)],
    evidence: &HarmEvidence,
) -> Finding {
    let dir = tempfile::tempdir().unwrap();
    // by these a rule knows that a missing file is not hidden
    let always = [
        ("/proc/sys/kernel/osrelease", "6.12.0"),
        ("/proc/self/comm", "quell"),
        ("/proc/2/comm", "kthreadd"),
        ("/sys/kernel/mm/x", ""),
        ("/sys/devices/system/cpu/online", "0-7"),
        ("/proc/4711/comm", "program"),
        (
            "/proc/4711/stat",
            "4711 (program) S 1 1 1 0 -1 0 10 0 2 0 5 6 0 0 20 0 3 0 100 0 0",
        ),
    ];
    for (path, text) in always.iter().chain(files) {
        let path = path.replace("PID/", "/proc/4711/");
        let path = dir.path().join(path.trim_start_matches('/'));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{text}\n")).unwrap();
    }
    let pid = matches!(rule.check, RuleCheck::Process(_)).then_some(FIXTURE_PID);
    let look = SystemView::new(dir.path(), pid, WorkloadProfile::LowLatency, evidence);
    let asked = rule.ask_rule(&look).expect("what it looks at");
    harm::attribute_harm(vec![asked], evidence).remove(0)
}

/// Evidence that a counter has grown by so much.
pub(crate) fn evidence_of_growth(counter: &str, n: u64) -> HarmEvidence {
    HarmEvidence {
        where_seen: "in 1.00 s".to_owned(),
        counter_growth: Some([(counter.to_owned(), n)].into()),
        ..HarmEvidence::default()
    }
}

/// Its status with these files.
pub(crate) fn status_on(rule: &AuditRule, files: &[(&str, &str)]) -> FindingStatus {
    ask_rule_on(rule, files).status
}

/// A hazard, with these fixes for now and lasting ones.
pub(crate) fn assert_hazard(finding: &Finding, now: &str, lasting: &str) {
    assert_eq!(finding.status, FindingStatus::Hazard, "{finding:#?}");
    assert_eq!(finding.fix_now(), now);
    assert_eq!(finding.fix_lasting(), lasting);
    assert!(!finding.read.is_empty(), "a hazard says what was read");
}
