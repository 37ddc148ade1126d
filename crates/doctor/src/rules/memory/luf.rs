//! SYS-LUF: a kernel that can defer the flushes of reclaim and demotion, and doesn't.

use crate::rules::prelude::*;

use super::common;

const LUF_MAX_FILE: &str = "/proc/sys/vm/luf_max";
const LUF_STALE_FILE: &str = "/proc/sys/vm/luf_stale_ms";
/// Pages that a node may hold back, 4 MB: one flush for some thousand of them (kernel/luf).
const ADVISED_LUF_PAGES: &str = "1024";
/// Flushes that were asked for by name: a change of mappings or of a file came before the batch was full.
const FORCED_FLUSH_COUNTERS: [&str; 5] = [
    "luf_flush_mm",
    "luf_flush_fault",
    "luf_flush_write",
    "luf_flush_invalidate",
    "luf_flush_undo",
];

pub(super) const SYS_LUF: AuditRule = AuditRule {
    id: "SYS-LUF",
    title: "deferred flushes (LUF)",
    severity: Severity::Low,
    why: "A kernel with LUF can hold back clean pages of mapped files that reclaim and demotion unmap, and flush once for \
          about a thousand of them; switched off it interrupts every CPU that maps them for some ten.",
    risk: "4 MB a node are held back; until they are flushed, vm.luf_stale_ms at most (100 ms unless it is set), a CPU may read a file through an \
           entry whose page is unmapped.",
    source: "quell's series for Linux 6.12, kernel/luf: Documentation/mm/luf.rst",
    causes: &[Cause::LufDeferred, Cause::LufForced],
    check: RuleCheck::System(check_sys_luf),
};

fn check_sys_luf(look: &SystemView<'_>) -> CheckResult {
    let (value, read) = look.read(LUF_MAX_FILE);
    let mut reads = vec![read];
    let checked = match (value.number(), &value) {
        (Some(0), _) => CheckResult::hazard("built in, and switched off")
            .with_fix(Fix::set_sysctl("vm.luf_max", ADVISED_LUF_PAGES)),
        (Some(pages), _) if pages > 0 => {
            let (held, first) = common::read_vmstat(look, "nr_luf_held");
            let (flushes, second) = common::read_vmstat(look, "luf_flush");
            let (stale, third) = look.read(LUF_STALE_FILE);
            reads.extend([first, second, third]);
            let forced = FORCED_FLUSH_COUNTERS.map(|name| common::read_vmstat(look, name).0);
            let forced: Option<u64> = forced.into_iter().sum();
            CheckResult::ok(luf_state_text(
                pages,
                held,
                flushes.zip(forced),
                stale.number(),
            ))
        }
        (None, FileValue::Absent) => CheckResult::ok("this kernel has none"),
        _ => CheckResult::unknown("the setting can't be read"),
    };
    checked.with_reads(reads)
}

/// Its state in words.
fn luf_state_text(
    pages: i64,
    held: Option<u64>,
    flushes: Option<(u64, u64)>,
    stale: Option<i64>,
) -> String {
    let mut said = format!("on: a node holds back up to {pages} pages");
    if let Some(ms) = stale {
        said += &format!(", for {ms} ms at most");
    }
    if let Some(held) = held {
        said += &format!("; {held} now");
    }
    if let Some((all, forced)) = flushes {
        said += &format!("; {all} flushes since boot, {forced} of them forced by a change");
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::FindingStatus;
    use crate::rules::fixture::{ask_rule_on, assert_hazard, status_on};

    /// Check that a kernel with it says whether it is on, and how to switch it on; others have nothing to say.
    #[test]
    fn state_is_told() {
        assert_hazard(
            &ask_rule_on(&SYS_LUF, &[(LUF_MAX_FILE, "0")]),
            "sysctl -w vm.luf_max=1024",
            "sysctl.d: vm.luf_max = 1024",
        );
        assert_eq!(status_on(&SYS_LUF, &[]), FindingStatus::Ok);
        assert_eq!(
            status_on(&SYS_LUF, &[(LUF_MAX_FILE, "many")]),
            FindingStatus::Unknown
        );
        let vmstat = "nr_luf_held 12\nluf_flush 900\nluf_flush_limit 800\nluf_flush_mm 60\nluf_flush_fault 30\n\
                      luf_flush_write 7\nluf_flush_invalidate 2\nluf_flush_undo 1";
        let found = ask_rule_on(
            &SYS_LUF,
            &[
                (LUF_MAX_FILE, "1024"),
                (LUF_STALE_FILE, "100"),
                ("/proc/vmstat", vmstat),
            ],
        );
        assert_eq!(found.status, FindingStatus::Ok);
        assert_eq!(
            found.said,
            "on: a node holds back up to 1024 pages, for 100 ms at most; 12 now; 900 flushes since boot, 100 of them \
             forced by a change"
        );
        assert_eq!(
            status_on(&SYS_LUF, &[(LUF_MAX_FILE, "1024")]),
            FindingStatus::Ok
        );
    }
}
