//! SYS-THP: huge pages for every program, asked or not.

use crate::rules::THP_ENABLED_FILE;
use crate::rules::prelude::*;

pub(super) const SYS_THP: AuditRule = AuditRule {
    id: "SYS-THP",
    title: "transparent huge pages for every program",
    severity: Severity::High,
    why: "A page fault may zero 2 MiB at once, khugepaged collapses pages behind the program's back, and what \
          it collapses or splits is flushed on every CPU of the program.",
    risk: "Programs that gain from huge pages and don't ask for them (madvise) lose them: more page faults and \
           more misses of the TLB.",
    source: "kernel Documentation/admin-guide/mm/transhuge.rst; rigtorp.se/virtual-memory",
    causes: &[Cause::ThpCollapse, Cause::ThpSplit],
    check: RuleCheck::System(check_sys_thp),
};

/// Its tcmalloc keeps huge pages whole and wants them (MongoDB 8.0 release notes); these don't.
const WANT_THP: &[&str] = &["mongod"];
const SUFFER_FROM_THP: &[&str] = &["redis-server", "valkey-server", "oracle"];

fn check_sys_thp(look: &SystemView<'_>) -> CheckResult {
    let (value, read) = look.read(THP_ENABLED_FILE);
    let (want, suffer) = (
        first_running(look, WANT_THP),
        first_running(look, SUFFER_FROM_THP),
    );
    let checked = match (value.chosen_word(), &value) {
        (Some("always"), _) => {
            let checked = CheckResult::hazard("huge pages are given to every program");
            // a fix for all would take them from who wants them
            match (want, suffer) {
                (Some(_), None) => checked.with_severity(Severity::Info),
                (Some(_), Some(suffer)) => checked.with_advice(format!(
                    "by process: start {suffer} with PR_SET_THP_DISABLE (systemd: MemoryTHP=), and leave the \
                     setting for all as it is"
                )),
                (None, _) => checked
                    .with_fix(Fix::set_file(THP_ENABLED_FILE, "madvise"))
                    .with_fix(Fix::Cmdline("transparent_hugepage=madvise".to_owned())),
            }
        }
        (Some(other), _) => CheckResult::ok(format!("set to {other}")),
        (None, FileValue::Absent) => CheckResult::ok("this kernel has no transparent huge pages"),
        (None, _) => CheckResult::unknown("the setting can't be read"),
    };
    let checked = match (want, suffer) {
        (Some(want), Some(suffer)) => checked.with_note(format!(
            "{want} 8 and later wants 'always' and {suffer} wants 'never' or 'madvise': with both on one machine \
             choose by process (PR_SET_THP_DISABLE, systemd's MemoryTHP=)"
        )),
        (Some(want), None) => checked.with_note(format!(
            "{want} runs here: version 8 and later wants 'always', version 7 and earlier 'never'"
        )),
        (None, _) if value.chosen_word().is_some() && !look.sees_all_processes() => checked.with_note(
            "which programs run can't be seen from here: mongod 8 and later wants 'always', redis-server doesn't",
        ),
        _ => checked,
    };
    checked.with_reads([read]).with_harm_counters(&[
        "khugepaged.pages_collapsed",
        "thp_split_page",
        "thp_split_pmd",
    ])
}

fn first_running(look: &SystemView<'_>, names: &[&'static str]) -> Option<&'static str> {
    names.iter().copied().find(|name| look.is_running(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::FindingStatus;
    use crate::rules::fixture::{ask_rule_on, assert_hazard, status_on};

    /// Check that `always` is a hazard with both fixes, and the other choices are none.
    #[test]
    fn always_is_a_hazard() {
        assert_hazard(
            &ask_rule_on(&SYS_THP, &[(THP_ENABLED_FILE, "[always] madvise never")]),
            "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
            "tmpfiles.d: w /sys/kernel/mm/transparent_hugepage/enabled - - - - madvise\n\
             kernel command line: transparent_hugepage=madvise",
        );
        assert_eq!(
            status_on(&SYS_THP, &[(THP_ENABLED_FILE, "always [madvise] never")]),
            FindingStatus::Ok
        );
        assert_eq!(
            status_on(&SYS_THP, &[]),
            FindingStatus::Ok,
            "a kernel without them"
        );
        assert_eq!(
            status_on(&SYS_THP, &[(THP_ENABLED_FILE, "garbage")]),
            FindingStatus::Unknown
        );
    }

    /// Check that MongoDB alone makes it a matter of taste, and that beside Redis the conflict is said.
    #[test]
    fn programs_differ() {
        let files = |names: &[&'static str]| {
            let mut files = vec![(THP_ENABLED_FILE, "[always] madvise never")];
            for (name, path) in names.iter().zip(["/proc/8/comm", "/proc/9/comm"]) {
                files.push((path, name));
            }
            ask_rule_on(&SYS_THP, &files)
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
            (THP_ENABLED_FILE, "[always] madvise never"),
            ("/proc/2/comm", "bash"),
        ];
        let unseen = ask_rule_on(&SYS_THP, &hidden);
        assert!(unseen.notes[0].contains("can't be seen"), "{unseen:?}");
        assert_hazard(
            &both,
            "",
            "by process: start redis-server with PR_SET_THP_DISABLE (systemd: MemoryTHP=), and leave the setting \
             for all as it is",
        );
    }
}
