//! SYS-DAMON: the kernel watches which memory is used, and acts on it.

use quell_event::Cause;

use crate::finding::{Read, Severity};
use crate::fix::Fix;
use crate::look::{Look, Value};
use crate::rule::{Check, Checked, Rule};

const KDAMONDS: &str = "/sys/kernel/mm/damon/admin/kdamonds";
const MODULES: &str = "/sys/module";
/// These watch, or sort lists; others take pages from programs (mm/damon).
const WATCHERS: [&str; 3] = ["damon_stat", "damon_lru_sort", "damon_sample_wsse"];

pub(super) const RULE: Rule = Rule {
    id: "SYS-DAMON",
    title: "DAMON acts on memory of programs",
    severity: Severity::Medium,
    why: "It clears the accessed bits of page tables to learn what is used, and its schemes reclaim, move or \
          collapse pages of running programs without need: shootdowns, and faults later.",
    risk: "Memory that is not used stays allocated.",
    source: "kernel Documentation/admin-guide/mm/damon/usage.rst and reclaim.rst",
    causes: &[Cause::Tracking],
    check: Check::System(check),
};

/// What was found so far.
#[derive(Default)]
struct Found {
    reads: Vec<Read>,
    on: Vec<String>,
    fixes: Vec<Fix>,
    /// Some of them do more than to watch.
    acts: bool,
    unread: bool,
}

fn check(look: &Look<'_>) -> Checked {
    let (count, read) = look.read(&format!("{KDAMONDS}/nr_kdamonds"));
    let mut found = Found {
        reads: vec![read],
        unread: count != Value::Absent && count.number().is_none(),
        ..Found::default()
    };
    for folder in look.numbered(KDAMONDS) {
        kdamond(look, &folder, &mut found);
    }
    for folder in look.list(MODULES, |name| name.starts_with("damon_")) {
        module(look, &folder, &mut found);
    }
    let checked = if !found.on.is_empty() {
        let said = format!("on: {}", found.on.join(", "));
        let hazard = found
            .fixes
            .into_iter()
            .fold(Checked::hazard(said), Checked::fix);
        if found.acts {
            hazard
        } else {
            hazard
                .severity(Severity::Low)
                .note("as set, it watches only")
        }
    } else if found.unread {
        Checked::unknown("its state can't be read (root)")
    } else if count == Value::Absent {
        Checked::ok("this kernel has none, or it is off")
    } else {
        Checked::ok("switched off")
    };
    checked.read(found.reads)
}

/// One that was set up by sysfs. That there is one tells nothing: it has a state.
fn kdamond(look: &Look<'_>, folder: &str, found: &mut Found) {
    let path = format!("{folder}/state");
    let (state, read) = look.read(&path);
    found.reads.push(read);
    match state.text().map(str::trim) {
        Some("on") => {
            let contexts = look.numbered(&format!("{folder}/contexts")).into_iter();
            let schemes = contexts.flat_map(|context| look.numbered(&format!("{context}/schemes")));
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
fn module(look: &Look<'_>, folder: &str, found: &mut Found) {
    let path = format!("{folder}/parameters/enabled");
    let (enabled, read) = look.read(&path);
    if enabled == Value::Absent {
        return;
    }
    found.reads.push(read);
    let name = folder.rsplit('/').next().unwrap_or_default();
    match enabled.text().map(str::trim) {
        Some("Y") => {
            found.acts |= !WATCHERS.contains(&name);
            found.on.push(name.to_owned());
            found.fixes.push(Fix::write(path, "N"));
            found.fixes.push(Fix::Cmdline(format!("{name}.enabled=N")));
        }
        Some("N") => {}
        _ => found.unread = true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Status;
    use crate::rules::fixture::{ask, assert_hazard, status};

    const COUNT: (&str, &str) = ("/sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds", "1");
    const STATE: &str = "/sys/kernel/mm/damon/admin/kdamonds/0/state";
    const ACTION: &str = "/sys/kernel/mm/damon/admin/kdamonds/0/contexts/0/schemes/0/action";

    /// Check that one that runs is a hazard, a lesser one if it only watches, and that one that rests is none.
    #[test]
    fn running_is_a_hazard() {
        let found = ask(&RULE, &[COUNT, (STATE, "on"), (ACTION, "pageout")]);
        assert_hazard(
            &found,
            "echo off > /sys/kernel/mm/damon/admin/kdamonds/0/state",
            "whoever sets it up (damo, a service) must not: stop that",
        );
        assert!(
            found.read.contains(&Read::new(ACTION, "pageout")),
            "{found:#?}"
        );
        assert_eq!(found.severity, Severity::Medium);
        let watches = ask(&RULE, &[COUNT, (STATE, "on"), (ACTION, "stat")]);
        assert_eq!(watches.severity, Severity::Low);
        let rests = [COUNT, (STATE, "off"), (ACTION, "pageout")];
        assert_eq!(status(&RULE, &rests), Status::Ok);
    }

    /// Check that the kernel's own are found.
    #[test]
    fn modules_count() {
        let reclaim = "/sys/module/damon_reclaim/parameters/enabled";
        let found = ask(&RULE, &[(reclaim, "Y")]);
        assert_hazard(
            &found,
            "echo N > /sys/module/damon_reclaim/parameters/enabled",
            "tmpfiles.d: w /sys/module/damon_reclaim/parameters/enabled - - - - N\n\
             kernel command line: damon_reclaim.enabled=N",
        );
        assert_eq!(found.severity, Severity::Medium);
        let stat = ask(&RULE, &[("/sys/module/damon_stat/parameters/enabled", "Y")]);
        assert_eq!(stat.severity, Severity::Low);
        assert_eq!(status(&RULE, &[(reclaim, "N")]), Status::Ok);
        assert_eq!(status(&RULE, &[(reclaim, "?")]), Status::Unknown);
    }

    /// Check that a kernel without it is fine, and nonsense is unknown.
    #[test]
    fn what_is_missing() {
        assert_eq!(status(&RULE, &[]), Status::Ok);
        assert_eq!(status(&RULE, &[COUNT, (STATE, "?")]), Status::Unknown);
        assert_eq!(status(&RULE, &[(COUNT.0, "x")]), Status::Unknown);
    }
}
