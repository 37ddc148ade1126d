//! PROC-HSPERF: a Java virtual machine keeps its counters in a file on a disk.

use quell_event::Cause;

use crate::finding::{Read, Severity};
use crate::look::Look;
use crate::process::ForeignMap;
use crate::process::Process;
use crate::rule::{Check, Checked, Rule};

use super::common::{self, UNREADABLE};

pub(super) const RULE: Rule = Rule {
    id: "PROC-HSPERF",
    title: "counters of a Java virtual machine in a file on a disk",
    severity: Severity::High,
    why: "HotSpot writes counters to a mapped file, also in its pauses: while the kernel writes that file to the \
          disk, the write waits, and the whole pause with it.",
    risk: "jps, jstat and other tools that read the file no longer see this virtual machine; jcmd with its \
           process id still does.",
    source: "Evan Jones, The Four Month Bug: JVM statistics cause garbage collection pauses (evanjones.ca); \
             rigtorp.se/virtual-memory",
    causes: &[Cause::Writeback],
    check: Check::Process(check),
};

fn check(_: &Look<'_>, process: &Process) -> Checked {
    let path = process.path("maps");
    match process.foreign_maps() {
        Some(maps) => judge(&path, &maps, &|name| process.variable(name).flatten()),
        None => Checked::unknown(UNREADABLE).read([Read::new(path, "(not readable)")]),
    }
}

fn judge(path: &str, maps: &[ForeignMap], env: &common::Env<'_>) -> Checked {
    let Some(map) = maps.iter().find(|m| m.is_of_java()) else {
        return Checked::ok("no counters of a Java virtual machine are mapped")
            .read([Read::new(path, "no hsperfdata_")]);
    };
    let file = map.path.display();
    let checked = match map.written_back {
        Some(true) => Checked::hazard(format!("{file} is written to a disk"))
            .fix(common::java_options(env, "-XX:+PerfDisableSharedMem")),
        Some(false) => Checked::ok(format!("{file} lies in memory")),
        None => Checked::unknown(format!(
            "the file system of {file} can't be asked (CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH)"
        )),
    };
    checked.read([Read::new(path, format!("rw-s {file}"))])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Status;
    use crate::fix::Fix;
    use crate::rules::fixture::status;

    const FILE: &str = "/tmp/hsperfdata_me/4711";

    fn judged(file: &str, written_back: Option<bool>, options: Option<&str>) -> Checked {
        let map = ForeignMap {
            path: file.into(),
            written_back,
        };
        judge("maps", &[map], &|_| options.map(str::to_owned))
    }

    /// Check that counters on a disk are a hazard whose fix keeps the options that are there, and that those in
    /// memory, or another file, are none.
    #[test]
    fn on_a_disk_is_a_hazard() {
        let hazard = judged(FILE, Some(true), Some("-Xmx1g"));
        assert_eq!(hazard.status, Some(Status::Hazard));
        let fix = Fix::env("JAVA_TOOL_OPTIONS", "-Xmx1g -XX:+PerfDisableSharedMem");
        assert_eq!(hazard.fixes, [fix]);
        let fix = Fix::env("JAVA_TOOL_OPTIONS", "-XX:+PerfDisableSharedMem");
        assert_eq!(judged(FILE, Some(true), None).fixes, [fix]);
        assert_eq!(judged(FILE, Some(false), None).status, Some(Status::Ok));
        assert_eq!(judged("/data/x", Some(true), None).status, Some(Status::Ok));
    }

    /// Check that what can't be asked is unknown, and a process without such a file is fine.
    #[test]
    fn what_cannot_be_asked_is_unknown() {
        let line = format!("7f0000000000-7f0000008000 rw-s 00000000 08:01 12 {FILE}");
        assert_eq!(status(&RULE, &[("PID/maps", &line)]), Status::Unknown);
        assert_eq!(status(&RULE, &[("PID/maps", "")]), Status::Ok);
        assert_eq!(status(&RULE, &[]), Status::Unknown);
    }
}
