//! SYS-THP: huge pages for every program, asked or not.

use quell_event::Cause;

use crate::finding::Severity;
use crate::fix::Fix;
use crate::look::{Look, Value};
use crate::rule::{Check, Checked, Rule};
use crate::rules::THP_ENABLED;

pub(super) const RULE: Rule = Rule {
    id: "SYS-THP",
    title: "transparent huge pages for every program",
    severity: Severity::High,
    why: "A page fault may zero 2 MiB at once, khugepaged collapses pages behind the program's back, and what \
          it collapses or splits is flushed on every CPU of the program.",
    risk: "Programs that gain from huge pages and don't ask for them (madvise) lose them: more page faults and \
           more misses of the TLB.",
    source: "kernel Documentation/admin-guide/mm/transhuge.rst; rigtorp.se/virtual-memory",
    causes: &[Cause::ThpCollapse, Cause::ThpSplit],
    check: Check::System(check),
};

/// Its tcmalloc keeps huge pages whole and wants them (MongoDB 8.0 release notes); these don't.
const WANT: &[&str] = &["mongod"];
const SUFFER: &[&str] = &["redis-server", "valkey-server", "oracle"];

fn check(look: &Look<'_>) -> Checked {
    let (value, read) = look.read(THP_ENABLED);
    let (want, suffer) = (running(look, WANT), running(look, SUFFER));
    let checked = match (value.chosen(), &value) {
        (Some("always"), _) => {
            let checked = Checked::hazard("huge pages are given to every program");
            // a fix for all would take them from who wants them
            match (want, suffer) {
                (Some(_), None) => checked.severity(Severity::Info),
                (Some(_), Some(suffer)) => checked.fix(Fix::Advice(format!(
                    "by process: start {suffer} with PR_SET_THP_DISABLE (systemd: MemoryTHP=), and leave the \
                     setting for all as it is"
                ))),
                (None, _) => checked
                    .fix(Fix::write(THP_ENABLED, "madvise"))
                    .fix(Fix::Cmdline("transparent_hugepage=madvise".to_owned())),
            }
        }
        (Some(other), _) => Checked::ok(format!("set to {other}")),
        (None, Value::Absent) => Checked::ok("this kernel has no transparent huge pages"),
        (None, _) => Checked::unknown("the setting can't be read"),
    };
    let checked = match (want, suffer) {
        (Some(want), Some(suffer)) => checked.note(format!(
            "{want} 8 and later wants 'always' and {suffer} wants 'never' or 'madvise': with both on one machine \
             choose by process (PR_SET_THP_DISABLE, systemd's MemoryTHP=)"
        )),
        (Some(want), None) => checked.note(format!(
            "{want} runs here: version 8 and later wants 'always', version 7 and earlier 'never'"
        )),
        (None, _) if value.chosen().is_some() && !look.sees_all() => checked.note(
            "which programs run can't be seen from here: mongod 8 and later wants 'always', redis-server doesn't",
        ),
        _ => checked,
    };
    checked.read([read]).grows(&[
        "khugepaged.pages_collapsed",
        "thp_split_page",
        "thp_split_pmd",
    ])
}

fn running(look: &Look<'_>, names: &[&'static str]) -> Option<&'static str> {
    names.iter().copied().find(|name| look.runs(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Status;
    use crate::rules::fixture::{ask, assert_hazard, status};

    /// Check that `always` is a hazard with both fixes, and the other choices are none.
    #[test]
    fn always_is_a_hazard() {
        assert_hazard(
            &ask(&RULE, &[(THP_ENABLED, "[always] madvise never")]),
            "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
            "tmpfiles.d: w /sys/kernel/mm/transparent_hugepage/enabled - - - - madvise\n\
             kernel command line: transparent_hugepage=madvise",
        );
        assert_eq!(
            status(&RULE, &[(THP_ENABLED, "always [madvise] never")]),
            Status::Ok
        );
        assert_eq!(status(&RULE, &[]), Status::Ok, "a kernel without them");
        assert_eq!(status(&RULE, &[(THP_ENABLED, "garbage")]), Status::Unknown);
    }

    /// Check that MongoDB alone makes it a matter of taste, and that beside Redis the conflict is said.
    #[test]
    fn programs_differ() {
        let files = |names: &[&'static str]| {
            let mut files = vec![(THP_ENABLED, "[always] madvise never")];
            for (name, path) in names.iter().zip(["/proc/8/comm", "/proc/9/comm"]) {
                files.push((path, name));
            }
            ask(&RULE, &files)
        };
        let mongo = files(&["mongod"]);
        assert_eq!(mongo.severity, Severity::Info);
        assert!(mongo.notes[0].contains("mongod"), "{:?}", mongo.notes);
        let both = files(&["mongod", "redis-server"]);
        assert_eq!(both.severity, Severity::High);
        assert!(both.notes[0].contains("redis-server"), "{:?}", both.notes);
        // nothing that takes them from who wants them
        assert_eq!(mongo.fixes, []);
        let hidden = [
            (THP_ENABLED, "[always] madvise never"),
            ("/proc/2/comm", "bash"),
        ];
        let unseen = ask(&RULE, &hidden);
        assert!(unseen.notes[0].contains("can't be seen"), "{unseen:?}");
        assert_hazard(
            &both,
            "",
            "by process: start redis-server with PR_SET_THP_DISABLE (systemd: MemoryTHP=), and leave the setting \
             for all as it is",
        );
    }
}
