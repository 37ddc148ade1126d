//! Machines made of files, to ask a rule about.

use std::fs;

use crate::evidence::Evidence;
use crate::finding::{Finding, Status};
use crate::harm;
use crate::look::Look;
use crate::profile::Profile;
use crate::rule::{Check, Rule};

/// The process that is looked at.
pub(crate) const PID: u32 = 4711;

/// What a rule finds on a machine with these files, and a process [`PID`] with those that begin with `PID/`.
pub(crate) fn ask(rule: &Rule, files: &[(&str, &str)]) -> Finding {
    ask_with(rule, files, &Evidence::default())
}

/// The same, with evidence.
pub(crate) fn ask_with(rule: &Rule, files: &[(&str, &str)], evidence: &Evidence) -> Finding {
    let dir = tempfile::tempdir().unwrap();
    // by these a rule knows that what is missing is not hidden
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
    let pid = matches!(rule.check, Check::Process(_)).then_some(PID);
    let look = Look::new(dir.path(), pid, Profile::LowLatency, evidence);
    let asked = rule.ask(&look).expect("what it looks at");
    harm::told(vec![asked], evidence).remove(0)
}

/// Evidence that a counter has grown by so much.
pub(crate) fn grown(counter: &str, n: u64) -> Evidence {
    Evidence {
        seen: "in 1.00 s".to_owned(),
        grown: Some([(counter.to_owned(), n)].into()),
        ..Evidence::default()
    }
}

/// Its status with these files.
pub(crate) fn status(rule: &Rule, files: &[(&str, &str)]) -> Status {
    ask(rule, files).status
}

/// A hazard, with these fixes for now and lasting ones.
pub(crate) fn assert_hazard(finding: &Finding, now: &str, lasting: &str) {
    assert_eq!(finding.status, Status::Hazard, "{finding:#?}");
    assert_eq!(finding.fix_now(), now);
    assert_eq!(finding.fix_lasting(), lasting);
    assert!(!finding.read.is_empty(), "a hazard says what was read");
}
