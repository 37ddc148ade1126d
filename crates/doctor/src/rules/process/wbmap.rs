//! PROC-WBMAP: the process writes to mapped files that a disk lies behind.

use crate::process::SharedFileMapping;
use crate::rules::prelude::*;

use super::common::MAPPINGS_UNREADABLE;

pub(super) const PROC_WBMAP: AuditRule = AuditRule {
    id: "PROC-WBMAP",
    title: "writable mapping of a file on a disk",
    severity: Severity::Critical,
    why: "To write a dirty page to the disk the kernel write-protects it, a shootdown, and a write to it \
          meanwhile waits for the disk.",
    risk: "What lies in memory only is gone when the machine stops.",
    source: "rigtorp.se/virtual-memory; github.com/bitcharmer/tlb_shootdowns; mm/page-writeback.c folio_mkclean",
    causes: &[Cause::Writeback],
    check: RuleCheck::Process(check_proc_wbmap),
};

/// Files that are named.
const MAX_NAMED_FILES: usize = 5;

fn check_proc_wbmap(_: &SystemView<'_>, process: &AuditedProcess) -> CheckResult {
    let path = process.proc_path("maps");
    match process.shared_file_mappings() {
        Some(maps) => judge_file_mappings(path, maps),
        None => CheckResult::unknown(MAPPINGS_UNREADABLE)
            .with_reads([FileReading::new(path, "(not readable)")]),
    }
}

fn judge_file_mappings(path: String, mut maps: Vec<SharedFileMapping>) -> CheckResult {
    // PROC-HSPERF's
    maps.retain(|m| !m.has_java_counters());
    let on_disk: Vec<String> = maps
        .iter()
        .filter(|m| m.written_back == Some(true))
        .map(|m| m.path.display().to_string())
        .collect();
    let unasked = maps.iter().filter(|m| m.written_back.is_none()).count();
    let shown = on_disk
        .iter()
        .take(MAX_NAMED_FILES)
        .map(|p| FileReading::new(path.clone(), format!("rw-s {p}")));
    if !on_disk.is_empty() {
        return CheckResult::hazard(format!(
            "{} writable shared mappings of files that are written back",
            on_disk.len()
        ))
        .with_reads(shown)
        .with_advice(
            "program: put the file on tmpfs (/dev/shm), or use a memfd or anonymous memory",
        );
    }
    if unasked > 0 {
        return CheckResult::unknown(format!(
            "the file system of {unasked} mappings can't be asked (CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH)"
        ))
        .with_reads([FileReading::new(path, format!("{unasked} writable shared mappings of files"))]);
    }
    CheckResult::ok("no writable shared mapping of a file on a disk").with_reads([
        FileReading::new(
            path,
            format!("{} writable shared mappings of files", maps.len()),
        ),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::FindingStatus;
    use crate::rules::fixture::ask_rule_on;

    const WRITABLE: &str = "7f0000000000-7f0000001000 rw-s 00000000 08:01 12 /var/lib/ring";

    /// Check that a file on a disk is a hazard, and the counters of a Java virtual machine are left to their rule.
    #[test]
    fn files_on_a_disk() {
        let map = |path: &str| SharedFileMapping {
            path: path.into(),
            written_back: Some(true),
        };
        let of = |maps| judge_file_mappings("/proc/1/maps".to_owned(), maps);
        let java = || map("/tmp/hsperfdata_a/1");
        assert_eq!(of(vec![java()]).status, Some(FindingStatus::Ok));
        let both = of(vec![java(), map("/var/lib/ring")]);
        assert_eq!(both.status, Some(FindingStatus::Hazard));
        assert!(both.said.starts_with("1 writable"), "{}", both.said);
    }

    /// Check that a mapping whose file system can't be asked is unknown, and private ones don't matter.
    #[test]
    fn what_cannot_be_asked_is_unknown() {
        let found = ask_rule_on(&PROC_WBMAP, &[("PID/maps", WRITABLE)]);
        assert_eq!(found.status, FindingStatus::Unknown);
        let private = WRITABLE.replace("rw-s", "rw-p");
        assert_eq!(
            ask_rule_on(&PROC_WBMAP, &[("PID/maps", &private)]).status,
            FindingStatus::Ok
        );
        assert_eq!(ask_rule_on(&PROC_WBMAP, &[]).status, FindingStatus::Unknown);
    }
}
