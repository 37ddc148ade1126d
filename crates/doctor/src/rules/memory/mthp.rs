//! SYS-MTHP: huge pages of smaller sizes for every program.

use crate::rules::prelude::*;

use super::common::{self, THP_ENABLED_FILE};

const PMD_SIZE_FILE: &str = "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size";

pub(super) const SYS_MTHP: AuditRule = AuditRule {
    id: "SYS-MTHP",
    title: "huge pages of one size for every program",
    severity: Severity::Medium,
    why: "Each size has a setting of its own beside the one for all: a page fault zeroes a whole block of it, \
          and to give back a part of it splits it, a shootdown.",
    risk: "Programs that don't ask for huge pages take more page faults.",
    source: "kernel Documentation/admin-guide/mm/transhuge.rst, hugepages-<size>kB/enabled",
    causes: &[Cause::ThpSplit],
    check: RuleCheck::System(check_sys_mthp),
};

fn check_sys_mthp(look: &SystemView<'_>) -> CheckResult {
    let (top, top_read) = look.read(THP_ENABLED_FILE);
    let pmd_kb = look.file(PMD_SIZE_FILE).number().unwrap_or(2 << 20) / 1024;
    let sizes = common::thp_size_settings(look, "enabled");
    let (mut fixes, mut names, mut unread) = (Vec::new(), Vec::new(), Vec::new());
    for size in &sizes {
        let name = size.path.trim_end_matches("/enabled");
        let name = name.rsplit('-').next().unwrap_or_default();
        let is_pmd = name == format!("{pmd_kb}kB");
        match size.value.chosen_word() {
            Some("always") => {
                // SYS-THP leaves this size to those who ask; the others are off by default
                let value = if is_pmd { "madvise" } else { "never" };
                fixes.push(Fix::set_file(size.path.clone(), value));
                names.push(name.to_owned());
            }
            // the size that inherits by default is SYS-THP's
            Some("inherit") if top.chosen_word() == Some("always") && !is_pmd => {
                fixes.push(Fix::set_file(size.path.clone(), "never"));
                names.push(name.to_owned());
            }
            Some("inherit" | "madvise" | "never") => {}
            _ => unread.push(name.to_owned()),
        }
    }
    let checked = if !names.is_empty() {
        CheckResult::hazard(format!("given to every program: {}", names.join(", ")))
            .with_fixes(fixes)
    } else if !unread.is_empty() {
        CheckResult::unknown(format!("can't be read: {}", unread.join(", ")))
    } else if !sizes.is_empty() {
        CheckResult::ok("no size is given to every program")
    } else {
        match top {
            FileValue::Absent => CheckResult::ok("this kernel has no transparent huge pages"),
            FileValue::Text(_) => CheckResult::ok("this kernel has one size only (before 6.8)"),
            FileValue::Refused(_) => CheckResult::unknown("the settings can't be read"),
        }
    };
    let reads = sizes.into_iter().map(|s| s.read);
    checked.with_reads([top_read]).with_reads(reads)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::FindingStatus;
    use crate::rules::fixture::{ask_rule_on, assert_hazard, status_on};

    const TOP: (&str, &str) = (THP_ENABLED_FILE, "always [madvise] never");
    const SMALL: &str = "/sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled";
    const LARGE: &str = "/sys/kernel/mm/transparent_hugepage/hugepages-2048kB/enabled";
    const ALWAYS: &str = "[always] inherit madvise never";
    const INHERIT: &str = "always [inherit] madvise never";

    /// Check that a size for every program is a hazard, the large one left to those who ask.
    #[test]
    fn always_is_a_hazard() {
        assert_hazard(
            &ask_rule_on(&SYS_MTHP, &[TOP, (SMALL, ALWAYS), (LARGE, ALWAYS)]),
            "echo madvise > /sys/kernel/mm/transparent_hugepage/hugepages-2048kB/enabled\n\
             echo never > /sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled",
            "tmpfiles.d: w /sys/kernel/mm/transparent_hugepage/hugepages-2048kB/enabled - - - - madvise\n\
             tmpfiles.d: w /sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled - - - - never",
        );
        let never = "always inherit madvise [never]";
        let files = [TOP, (SMALL, never), (LARGE, INHERIT)];
        assert_eq!(status_on(&SYS_MTHP, &files), FindingStatus::Ok);
    }

    /// Check that what a size inherits counts, but for the one that SYS-THP speaks of.
    #[test]
    fn sizes_inherit() {
        let top = (THP_ENABLED_FILE, "[always] madvise never");
        assert_eq!(
            status_on(&SYS_MTHP, &[top, (SMALL, INHERIT)]),
            FindingStatus::Hazard
        );
        assert_eq!(
            status_on(&SYS_MTHP, &[top, (LARGE, INHERIT)]),
            FindingStatus::Ok
        );
        assert_eq!(
            status_on(&SYS_MTHP, &[TOP, (SMALL, INHERIT)]),
            FindingStatus::Ok
        );
    }

    /// Check that older kernels are fine, and nonsense is unknown.
    #[test]
    fn what_is_missing() {
        assert_eq!(status_on(&SYS_MTHP, &[]), FindingStatus::Ok);
        assert_eq!(status_on(&SYS_MTHP, &[TOP]), FindingStatus::Ok);
        assert_eq!(
            status_on(&SYS_MTHP, &[TOP, (SMALL, "x")]),
            FindingStatus::Unknown
        );
    }
}
