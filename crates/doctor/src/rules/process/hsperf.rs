//! PROC-HSPERF: a Java virtual machine keeps its counters in a file on a disk.

use crate::process::SharedFileMapping;
use crate::rules::prelude::*;

use super::common::{self, MAPPINGS_UNREADABLE};

pub(super) const PROC_HSPERF: AuditRule = AuditRule {
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
    check: RuleCheck::Process(check_proc_hsperf),
};

fn check_proc_hsperf(_: &SystemView<'_>, process: &AuditedProcess) -> CheckResult {
    let path = process.proc_path("maps");
    match process.shared_file_mappings() {
        Some(maps) => {
            judge_java_counters(&path, &maps, &|name| process.start_variable(name).flatten())
        }
        None => CheckResult::unknown(MAPPINGS_UNREADABLE)
            .with_reads([FileReading::new(path, "(not readable)")]),
    }
}

fn judge_java_counters(
    path: &str,
    maps: &[SharedFileMapping],
    env: &common::StartEnvironment<'_>,
) -> CheckResult {
    let Some(map) = maps.iter().find(|m| m.has_java_counters()) else {
        return CheckResult::ok("no counters of a Java virtual machine are mapped")
            .with_reads([FileReading::new(path, "no hsperfdata_")]);
    };
    let file = map.path.display();
    let checked = match map.written_back {
        Some(true) => CheckResult::hazard(format!("{file} is written to a disk"))
            .with_fix(common::add_java_options(env, "-XX:+PerfDisableSharedMem")),
        Some(false) => CheckResult::ok(format!("{file} lies in memory")),
        None => CheckResult::unknown(format!(
            "the file system of {file} can't be asked (CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH)"
        )),
    };
    checked.with_reads([FileReading::new(path, format!("rw-s {file}"))])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::FindingStatus;
    use crate::fix::Fix;
    use crate::rules::fixture::status_on;

    const FILE: &str = "/tmp/hsperfdata_me/4711";

    fn judged(file: &str, written_back: Option<bool>, options: Option<&str>) -> CheckResult {
        let map = SharedFileMapping {
            path: file.into(),
            written_back,
        };
        judge_java_counters("maps", &[map], &|_| options.map(str::to_owned))
    }

    /// Check that counters on a disk are a hazard whose fix keeps the options that are there, and that those in
    /// memory, or another file, are none.
    #[test]
    fn on_a_disk_is_a_hazard() {
        let hazard = judged(FILE, Some(true), Some("-Xmx1g"));
        assert_eq!(hazard.status, Some(FindingStatus::Hazard));
        let fix = Fix::set_variable("JAVA_TOOL_OPTIONS", "-Xmx1g -XX:+PerfDisableSharedMem");
        assert_eq!(hazard.fixes, [fix]);
        let fix = Fix::set_variable("JAVA_TOOL_OPTIONS", "-XX:+PerfDisableSharedMem");
        assert_eq!(judged(FILE, Some(true), None).fixes, [fix]);
        assert_eq!(
            judged(FILE, Some(false), None).status,
            Some(FindingStatus::Ok)
        );
        assert_eq!(
            judged("/data/x", Some(true), None).status,
            Some(FindingStatus::Ok)
        );
    }

    /// Check that what can't be asked is unknown, and a process without such a file is fine.
    #[test]
    fn what_cannot_be_asked_is_unknown() {
        let line = format!("7f0000000000-7f0000008000 rw-s 00000000 08:01 12 {FILE}");
        assert_eq!(
            status_on(&PROC_HSPERF, &[("PID/maps", &line)]),
            FindingStatus::Unknown
        );
        assert_eq!(
            status_on(&PROC_HSPERF, &[("PID/maps", "")]),
            FindingStatus::Ok
        );
        assert_eq!(status_on(&PROC_HSPERF, &[]), FindingStatus::Unknown);
    }
}
