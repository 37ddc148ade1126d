//! PROC-KSM: the process lets ksmd merge its pages.

use quell_event::Cause;

use crate::finding::{Read, Severity};
use crate::fix::Fix;
use crate::look::{Look, Value};
use crate::process::Process;
use crate::rule::{Check, Checked, Rule};

use super::common::UNREADABLE;

const RUN: &str = "/sys/kernel/mm/ksm/run";

pub(super) const RULE: Rule = Rule {
    id: "PROC-KSM",
    title: "its pages may be merged with others",
    severity: Severity::High,
    why: "ksmd write-protects and merges pages of who opted in, a shootdown for each, and the next write to a \
          merged page is a fault that copies it.",
    risk: "What was merged is copied, so that it takes more memory.",
    source: "rigtorp.se/virtual-memory; kernel Documentation/admin-guide/mm/ksm.rst; man PR_SET_MEMORY_MERGE(2const)",
    causes: &[Cause::Ksm],
    check: Check::Process(check),
};

fn check(look: &Look<'_>, process: &Process) -> Checked {
    let stat = process.file("ksm_stat");
    let any = field(&stat, "ksm_merge_any");
    let mergeable = field(&stat, "ksm_mergeable");
    let merged = field(&stat, "ksm_merging_pages").and_then(|n| n.parse::<u64>().ok());
    let marked = process.flagged(&["mg"]);
    let run = look.file(RUN);
    let checked = if any == Some("yes") || merged > Some(0) || marked > Some(0) {
        let hazard = Checked::hazard(format!(
            "{} pages are merged, {} mappings are marked for it, all of them by prctl: {}",
            merged.map_or("an unknown number of".to_owned(), |n| n.to_string()),
            marked.map_or("an unknown number of".to_owned(), |n| n.to_string()),
            any.unwrap_or("not known"),
        ))
        .fix(Fix::Advice(
            "program: prctl(PR_SET_MEMORY_MERGE, 0, 0, 0, 0), or madvise(MADV_UNMERGEABLE) where it asked for \
             merging itself"
                .to_owned(),
        ))
        .fix(Fix::Directive("MemoryKSM=no".to_owned()));
        match run.number() {
            Some(0 | 2) if merged == Some(0) => hazard
                .severity(Severity::Low)
                .note("ksmd does not run now: nothing is merged until somebody starts it"),
            _ => hazard,
        }
    } else if marked == Some(0) || (any, mergeable) == (Some("no"), Some("no")) {
        Checked::ok("none of its memory is to be merged")
    } else if run == Value::Absent {
        Checked::ok("this kernel has no same-page merging")
    } else {
        Checked::unknown(UNREADABLE)
    };
    let shown = |n: Option<&str>| n.unwrap_or("(not readable)").to_owned();
    let count = marked.map(|n| format!("{n} with mg"));
    let counted = merged.map(|n| n.to_string());
    let merging = format!("{} ksm_merging_pages", process.path("ksm_stat"));
    checked
        .read([
            Read::new(
                format!("{} ksm_merge_any", process.path("ksm_stat")),
                shown(any),
            ),
            Read::new(merging, shown(counted.as_deref())),
            Read::new(
                format!("{} VmFlags", process.path("smaps")),
                shown(count.as_deref()),
            ),
        ])
        .grows(&["cow_ksm"])
}

/// `ksm_merging_pages 0` and `ksm_merge_any: no` (fs/proc/base.c, proc_pid_ksm_stat). Older kernels have fewer lines.
fn field<'a>(stat: &'a Value, name: &str) -> Option<&'a str> {
    let mut lines = stat.text()?.lines();
    let rest = lines.find_map(|l| l.strip_prefix(name)?.strip_prefix([':', ' ']))?;
    Some(rest.trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Status;
    use crate::rules::fixture::{ask, assert_hazard, status};

    const NONE: &str =
        "ksm_rmap_items 0\nksm_merging_pages 0\nksm_merge_any: no\nksm_mergeable: no";
    const MARKED: &str = "VmFlags: rd wr mr mw me ac mg ";

    /// Check that merged pages, a process that opted in, and a marked mapping are each a hazard.
    #[test]
    fn opted_in_is_a_hazard() {
        let any = NONE.replace("any: no", "any: yes");
        let merged = NONE.replace("pages 0", "pages 7");
        let found = ask(
            &RULE,
            &[("PID/ksm_stat", &merged), ("PID/smaps", "VmFlags: rd ")],
        );
        assert_hazard(
            &found,
            "",
            "program: prctl(PR_SET_MEMORY_MERGE, 0, 0, 0, 0), or madvise(MADV_UNMERGEABLE) where it asked for merging \
             itself\n\
             systemd service: MemoryKSM=no",
        );
        assert_eq!(found.severity, Severity::High);
        assert_eq!(status(&RULE, &[("PID/ksm_stat", &any)]), Status::Hazard);
        assert_eq!(status(&RULE, &[("PID/smaps", MARKED)]), Status::Hazard);
    }

    /// Check that opting in while ksmd stands still, with nothing merged, is a small matter.
    #[test]
    fn ksmd_stands_still() {
        let files = [("PID/ksm_stat", NONE), ("PID/smaps", MARKED), (RUN, "0")];
        assert_eq!(ask(&RULE, &files).severity, Severity::Low);
        let files = [("PID/ksm_stat", NONE), ("PID/smaps", MARKED), (RUN, "1")];
        assert_eq!(ask(&RULE, &files).severity, Severity::High);
    }

    /// Check that nothing marked is fine, as is a kernel without it, and that what can't be read is unknown.
    #[test]
    fn nothing_marked() {
        assert_eq!(
            status(&RULE, &[("PID/ksm_stat", NONE), (RUN, "1")]),
            Status::Ok
        );
        assert_eq!(
            status(&RULE, &[("PID/smaps", "VmFlags: rd "), (RUN, "1")]),
            Status::Ok
        );
        assert_eq!(status(&RULE, &[]), Status::Ok, "no KSM in this kernel");
        assert_eq!(status(&RULE, &[(RUN, "1")]), Status::Unknown);
        let old = [("PID/ksm_stat", "ksm_rmap_items 0"), (RUN, "1")];
        assert_eq!(status(&RULE, &old), Status::Unknown);
    }
}
