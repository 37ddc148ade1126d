//! SYS-WB: much dirty memory gathers before it is written.

use crate::fix::sysctl_path;
use crate::rules::prelude::*;

const BACKGROUND_SYSCTL: &str = "vm.dirty_background_ratio";
const RATIO_SYSCTL: &str = "vm.dirty_ratio";
const BYTES_SYSCTL: &str = "vm.dirty_bytes";
/// Where programs are throttled. The kernel begins to write at half of it at the latest (mm/page-writeback.c,
/// domain_dirty_limits), so the other limit can stay a share. That one in bytes could not be taken back: it takes no
/// 0, and to write the share zeroes it (dirty_background_ratio_handler).
const ADVISED_DIRTY_BYTES: &str = "536870912";
/// The kernel's shares by default, of what is available.
const DEFAULT_RATIOS: [(&str, i64); 2] = [(BACKGROUND_SYSCTL, 10), (RATIO_SYSCTL, 20)];

pub(super) const SYS_WB: AuditRule = AuditRule {
    id: "SYS-WB",
    title: "limits of dirty memory",
    severity: Severity::Medium,
    why: "To write a mapped file's dirty pages the kernel write-protects each, a shootdown, and writers of a page \
          wait for the disk: where a share of memory may be dirty, many GB are written in one go.",
    risk: "Data is written sooner and in smaller parts; programs that write much reach the limit sooner and are \
           throttled.",
    source: "kernel Documentation/admin-guide/sysctl/vm.rst, dirty_bytes; LUF patch series; \
             rigtorp.se/virtual-memory",
    causes: &[Cause::Writeback],
    check: RuleCheck::System(check_sys_wb),
};

fn check_sys_wb(look: &SystemView<'_>) -> CheckResult {
    let (mut reads, mut fixes, mut wide, mut unread) = (Vec::new(), Vec::new(), Vec::new(), false);
    for (name, default) in DEFAULT_RATIOS {
        let (ratio, read) = look.read(&sysctl_path(name));
        reads.push(read);
        match ratio.number() {
            // 0 where the limit is one in bytes
            Some(n) if n >= default => {
                wide.push(format!("{name} is {n} %"));
                fixes.extend(narrower_limits(name));
            }
            Some(_) => {}
            // every kernel has them
            None => unread = true,
        }
    }
    let (written, by) = are_maps_written_back(look);
    reads.extend(by);
    let checked = match written {
        _ if wide.is_empty() && unread => CheckResult::unknown("the limits can't be read"),
        _ if wide.is_empty() => CheckResult::ok("limited in bytes, or to less than by default"),
        Some(true) => CheckResult::hazard(format!(
            "{}, and mapped files are written back",
            wide.join(", ")
        ))
        .with_fixes(fixes),
        Some(false) => CheckResult::ok("the process writes to no mapped file of a disk"),
        None => CheckResult::unknown(
            "whether a program writes to mapped files of a disk is not known (--pid)",
        ),
    };
    checked.with_reads(reads)
}

fn narrower_limits(name: &str) -> Vec<Fix> {
    if name == BACKGROUND_SYSCTL {
        return vec![Fix::set_sysctl(BACKGROUND_SYSCTL, "1")];
    }
    // The share is 0 as soon as there are bytes, and to write 0 again changes nothing. It is here so that undo writes
    // the share that was, which sets the bytes back to 0 (dirty_ratio_handler).
    vec![
        Fix::set_sysctl(BYTES_SYSCTL, ADVISED_DIRTY_BYTES),
        Fix::set_sysctl(RATIO_SYSCTL, "0"),
    ]
}

/// Whether dirty pages of mapped files are written back: the trace has shootdowns by writeback, whoever made them, or the process
/// has such a mapping. `None` without a process, or where a file system can't be asked.
fn are_maps_written_back(look: &SystemView<'_>) -> (Option<bool>, Option<FileReading>) {
    let seen = look
        .evidence
        .shootdowns_by(&[Cause::Writeback])
        .filter(|&n| n > 0);
    if let Some(n) = seen {
        let read = FileReading::new("shootdowns by writeback", n.to_string());
        return (Some(true), Some(read));
    }
    let Some(process) = look.process() else {
        return (None, None);
    };
    let path = process.proc_path("maps");
    let Some(maps) = process.shared_file_mappings() else {
        return (None, Some(FileReading::new(path, "(not readable)")));
    };
    let on_disk = maps.iter().filter(|m| m.written_back == Some(true)).count();
    let unasked = maps.iter().any(|m| m.written_back.is_none());
    let read = FileReading::new(
        path,
        format!("{on_disk} writable shared mappings of files on a disk"),
    );
    let written = if on_disk > 0 {
        Some(true)
    } else if unasked {
        None
    } else {
        Some(false)
    };
    (written, Some(read))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::HarmEvidence;
    use crate::finding::FindingStatus;
    use crate::rules::fixture::{ask_rule_with, assert_hazard, status_on};

    const BACK: &str = "/proc/sys/vm/dirty_background_ratio";
    const ALL: &str = "/proc/sys/vm/dirty_ratio";

    fn are_maps_written_back() -> HarmEvidence {
        HarmEvidence {
            where_seen: "in t.quell".to_owned(),
            shootdowns_by_cause: Some([(Cause::Writeback, 5)].into()),
            ..HarmEvidence::default()
        }
    }

    /// Check that the defaults are a hazard where mapped files were written back, and limits in bytes are none.
    #[test]
    fn the_default_is_a_hazard() {
        assert_hazard(
            &ask_rule_with(
                &SYS_WB,
                &[(BACK, "10"), (ALL, "20")],
                &are_maps_written_back(),
            ),
            "sysctl -w vm.dirty_background_ratio=1\nsysctl -w vm.dirty_bytes=536870912\n\
             sysctl -w vm.dirty_ratio=0",
            "sysctl.d: vm.dirty_background_ratio = 1\nsysctl.d: vm.dirty_bytes = 536870912\n\
             sysctl.d: vm.dirty_ratio = 0",
        );
        let after = [(BACK, "1"), (ALL, "0")];
        assert_eq!(
            ask_rule_with(&SYS_WB, &after, &are_maps_written_back()).status,
            FindingStatus::Ok
        );
        let bytes = ask_rule_with(
            &SYS_WB,
            &[(BACK, "0"), (ALL, "0")],
            &are_maps_written_back(),
        );
        assert_eq!(bytes.status, FindingStatus::Ok);
        assert_eq!(
            ask_rule_with(&SYS_WB, &[(ALL, "x")], &are_maps_written_back()).status,
            FindingStatus::Unknown
        );
    }

    /// Check that it depends on the process, and is unknown without one.
    #[test]
    fn the_process_matters() {
        let files = [(BACK, "10"), (ALL, "20")];
        assert_eq!(status_on(&SYS_WB, &files), FindingStatus::Unknown);
        let rule = AuditRule {
            check: RuleCheck::Process(|look, _| check_sys_wb(look)),
            ..SYS_WB
        };
        let with = |maps| status_on(&rule, &[files[0], files[1], ("PID/maps", maps)]);
        assert_eq!(
            with("7f0000000000-7f0000001000 rw-p 00000000 08:01 12 /x"),
            FindingStatus::Ok
        );
        assert_eq!(
            with("7f0000000000-7f0000001000 rw-s 00000000 08:01 12 /x"),
            FindingStatus::Unknown
        );
        assert_eq!(status_on(&rule, &files), FindingStatus::Unknown);
    }
}
