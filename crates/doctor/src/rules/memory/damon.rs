//! SYS-DAMON: the kernel watches which memory is used, and acts on it.

use crate::rules::prelude::*;

const KDAMONDS_FOLDER: &str = "/sys/kernel/mm/damon/admin/kdamonds";
const MODULES_FOLDER: &str = "/sys/module";
/// These watch, or sort lists; others take pages from programs (mm/damon).
const WATCHING_MODULES: [&str; 3] = ["damon_stat", "damon_lru_sort", "damon_sample_wsse"];

pub(super) const SYS_DAMON: AuditRule = AuditRule {
    id: "SYS-DAMON",
    title: "DAMON acts on memory of programs",
    severity: Severity::Medium,
    why: "It clears the accessed bits of page tables to learn what is used, and its schemes reclaim, move or \
          collapse pages of running programs without need: shootdowns, and faults later.",
    risk: "Memory that is not used stays allocated.",
    source: "kernel Documentation/admin-guide/mm/damon/usage.rst and reclaim.rst",
    causes: &[Cause::Tracking],
    check: RuleCheck::System(check_sys_damon),
};

/// The state of DAMON, as far as it was read.
#[derive(Default)]
struct DamonFindings {
    reads: Vec<FileReading>,
    on: Vec<String>,
    fixes: Vec<Fix>,
    /// Some of them do more than to watch.
    acts: bool,
    unread: bool,
}

fn check_sys_damon(look: &SystemView<'_>) -> CheckResult {
    let (count, read) = look.read(&format!("{KDAMONDS_FOLDER}/nr_kdamonds"));
    let mut found = DamonFindings {
        reads: vec![read],
        unread: count != FileValue::Absent && count.number().is_none(),
        ..DamonFindings::default()
    };
    for folder in look.numbered_files_in(KDAMONDS_FOLDER) {
        read_kdamond(look, &folder, &mut found);
    }
    for folder in look.files_in(MODULES_FOLDER, |name| name.starts_with("damon_")) {
        read_module(look, &folder, &mut found);
    }
    let checked = if !found.on.is_empty() {
        let said = format!("on: {}", found.on.join(", "));
        let hazard = CheckResult::hazard(said).with_fixes(found.fixes);
        if found.acts {
            hazard
        } else {
            hazard
                .with_severity(Severity::Low)
                .with_note("as set, it watches only")
        }
    } else if found.unread {
        CheckResult::unknown("its state can't be read (root)")
    } else if count == FileValue::Absent {
        CheckResult::ok("this kernel has none, or it is off")
    } else {
        CheckResult::ok("switched off")
    };
    checked.with_reads(found.reads)
}

/// One that was set up by sysfs. That there is one tells nothing: it has a state.
fn read_kdamond(look: &SystemView<'_>, folder: &str, found: &mut DamonFindings) {
    let path = format!("{folder}/state");
    let (state, read) = look.read(&path);
    found.reads.push(read);
    match state.text().map(str::trim) {
        Some("on") => {
            let contexts = look
                .numbered_files_in(&format!("{folder}/contexts"))
                .into_iter();
            let schemes =
                contexts.flat_map(|context| look.numbered_files_in(&format!("{context}/schemes")));
            for scheme in schemes {
                let (action, read) = look.read(&format!("{scheme}/action"));
                found.acts |= action.text() != Some("stat");
                found.reads.push(read);
            }
            found.fixes.push(Fix::Command(format!("echo off > {path}")));
            // its folder is made by whoever sets it up, long after tmpfiles.d is read
            let lasting =
                Fix::Advice("whoever sets it up (damo, a service) must not: stop that".to_owned());
            if !found.fixes.contains(&lasting) {
                found.fixes.push(lasting);
            }
            found.on.push(path);
        }
        Some("off") => {}
        _ => found.unread = true,
    }
}

/// One of the kernel's own.
fn read_module(look: &SystemView<'_>, folder: &str, found: &mut DamonFindings) {
    let path = format!("{folder}/parameters/enabled");
    let (enabled, read) = look.read(&path);
    if enabled == FileValue::Absent {
        return;
    }
    found.reads.push(read);
    let name = folder.rsplit('/').next().unwrap_or_default();
    match enabled.text().map(str::trim) {
        Some("Y") => {
            found.acts |= !WATCHING_MODULES.contains(&name);
            found.on.push(name.to_owned());
            found.fixes.push(Fix::set_file(path, "N"));
            found.fixes.push(Fix::Cmdline(format!("{name}.enabled=N")));
        }
        Some("N") => {}
        _ => found.unread = true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::FindingStatus;
    use crate::rules::fixture::{ask_rule_on, assert_hazard, status_on};

    const COUNT: (&str, &str) = ("/sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds", "1");
    const STATE: &str = "/sys/kernel/mm/damon/admin/kdamonds/0/state";
    const ACTION: &str = "/sys/kernel/mm/damon/admin/kdamonds/0/contexts/0/schemes/0/action";

    /// Check that one that runs is a hazard, a lesser one if it only watches, and that one that rests is none.
    #[test]
    fn running_is_a_hazard() {
        let found = ask_rule_on(&SYS_DAMON, &[COUNT, (STATE, "on"), (ACTION, "pageout")]);
        assert_hazard(
            &found,
            "echo off > /sys/kernel/mm/damon/admin/kdamonds/0/state",
            "whoever sets it up (damo, a service) must not: stop that",
        );
        assert!(
            found.read.contains(&FileReading::new(ACTION, "pageout")),
            "{found:#?}"
        );
        assert_eq!(found.severity, Severity::Medium);
        let watches = ask_rule_on(&SYS_DAMON, &[COUNT, (STATE, "on"), (ACTION, "stat")]);
        assert_eq!(watches.severity, Severity::Low);
        let rests = [COUNT, (STATE, "off"), (ACTION, "pageout")];
        assert_eq!(status_on(&SYS_DAMON, &rests), FindingStatus::Ok);
    }

    /// Check that the kernel's own are found.
    #[test]
    fn modules_count() {
        let reclaim = "/sys/module/damon_reclaim/parameters/enabled";
        let found = ask_rule_on(&SYS_DAMON, &[(reclaim, "Y")]);
        assert_hazard(
            &found,
            "echo N > /sys/module/damon_reclaim/parameters/enabled",
            "tmpfiles.d: w /sys/module/damon_reclaim/parameters/enabled - - - - N\n\
             kernel command line: damon_reclaim.enabled=N",
        );
        assert_eq!(found.severity, Severity::Medium);
        let stat = ask_rule_on(
            &SYS_DAMON,
            &[("/sys/module/damon_stat/parameters/enabled", "Y")],
        );
        assert_eq!(stat.severity, Severity::Low);
        assert_eq!(status_on(&SYS_DAMON, &[(reclaim, "N")]), FindingStatus::Ok);
        assert_eq!(
            status_on(&SYS_DAMON, &[(reclaim, "?")]),
            FindingStatus::Unknown
        );
    }

    /// Check that a kernel without it is fine, and nonsense is unknown.
    #[test]
    fn what_is_missing() {
        assert_eq!(status_on(&SYS_DAMON, &[]), FindingStatus::Ok);
        assert_eq!(
            status_on(&SYS_DAMON, &[COUNT, (STATE, "?")]),
            FindingStatus::Unknown
        );
        assert_eq!(
            status_on(&SYS_DAMON, &[(COUNT.0, "x")]),
            FindingStatus::Unknown
        );
    }
}
